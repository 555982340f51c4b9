#include "tests/chaos/client.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "tests/chaos/process.h"

namespace chaos {
namespace {

using common::cat;

constexpr int64_t kRetryNs = 300'000'000;
constexpr int kExitFailed = 1, kExitUnreachable = 4;

int open_fresh(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

}  // namespace

std::string json_field(const std::string& json, const std::string& name) {
  size_t at = json.find(cat("\"", name, "\":"));
  if (at == std::string::npos) return "";
  at += name.size() + 3;
  std::string value = json.substr(at, json.find_first_of(",}", at) - at);
  if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
  return value;
}

Client::Client(std::string name, std::vector<std::string> arguments, std::string folder,
               const common::ChildSetup* where)
    : name_(std::move(name)),
      arguments_(std::move(arguments)),
      folder_(std::move(folder)),
      where_(where) {}

void Client::start(int64_t now_ns) {
  common::SpawnOptions options;
  options.arguments = arguments_;
  options.arguments.insert(options.arguments.begin() + 1, {"submit", case_ + "/model.pt2"});
  options.arguments.insert(options.arguments.end(), {"--json", "--state", folder_ + "/state"});
  options.stdout_fd = open_fresh(folder_ + "/out");
  options.stderr_fd = open_fresh(folder_ + "/err");
  options.new_process_group = true;
  options.setup = where_;
  auto process = common::Subprocess::start(options);
  ::close(options.stdout_fd);
  ::close(options.stderr_fd);
  killed_ = false;
  ++attempts_;
  if (process.ok()) {
    process_ = std::move(process).value();
  } else {
    complaint_ = process.error().message;
    retry_ns_ = now_ns + kRetryNs;
  }
}

std::optional<Plan> Client::tend(int64_t now_ns) {
  if (case_.empty()) return std::nullopt;
  if (!process_) {
    if (now_ns >= retry_ns_) start(now_ns);
    return std::nullopt;
  }
  auto ended = process_->poll();
  if (!ended) return std::nullopt;
  process_.reset();
  return on_end(*ended, now_ns);
}

std::optional<Plan> Client::on_end(const common::ExitStatus& status, int64_t now_ns) {
  std::string out = common::read_file(folder_ + "/out").value();
  if (status.signal == 0 && status.code == 0) {
    Plan plan{json_field(out, "graph_hash"), json_field(out, "plan")};
    case_.clear();
    if (plan.graph.empty() || plan.id.empty()) complaint_ = cat("a submit printed ", out);
    return plan;
  }
  retry_ns_ = now_ns + kRetryNs;
  last_words_ = last_line(common::read_file(folder_ + "/err").value());
  bool again =
      status.signal == 0 ? status.code == kExitFailed || status.code == kExitUnreachable : killed_;
  if (!again) complaint_ = cat("submit of ", case_, " ", describe(status), ": ", last_words_);
  return std::nullopt;
}

void Client::kill() {
  if (!process_) return;
  killed_ = true;
  process_->send_signal(SIGKILL);
}

}  // namespace chaos
