#include "clients/cli/models/case_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "clients/cli/base/child_stage.h"
#include "clients/cli/base/json_fields.h"
#include "common/base/cat.h"
#include "common/base/clock.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

namespace {

constexpr int kPollMs = 100;
constexpr size_t kWordsMax = 4096;

nlohmann::json json_of(const CaseMeasurement& measured) {
  nlohmann::json json{{"sizes", measured.sizes},
                      {"dtype", measured.dtype},
                      {"median_ns", measured.latency.median_ns},
                      {"spread_ns", measured.latency.spread_ns},
                      {"runs", measured.latency.runs}};
  if (measured.batch) json["batch"] = *measured.batch;
  if (measured.error) json["error"] = {measured.error->absolute, measured.error->relative};
  return json;
}

CaseMeasurement measurement_of(const nlohmann::json& json) {
  CaseMeasurement measured;
  measured.sizes = json.value("sizes", "");
  measured.dtype = json.value("dtype", "");
  measured.latency = {json.value("median_ns", 0.0), json.value("spread_ns", 0.0),
                      integer_in(json, "runs")};
  if (json.contains("batch")) measured.batch = integer_in(json, "batch");
  if (json.contains("error")) {
    measured.error = {json.at("error").at(0).get<double>(), json.at("error").at(1).get<double>()};
  }
  return measured;
}

std::optional<Verdict> verdict_of(const nlohmann::json& name) {
  for (Verdict verdict : {Verdict::kPass, Verdict::kFail, Verdict::kUnsupported}) {
    if (name == verdict_name(verdict)) return verdict;
  }
  return std::nullopt;
}

std::optional<CaseResult> decode(const std::string& line) {
  try {
    auto json = nlohmann::json::parse(line);
    auto verdict = verdict_of(json.at("verdict"));
    if (!verdict) return std::nullopt;
    CaseResult result;
    result.verdict = *verdict;
    result.name = json.at("name").get<std::string>();
    result.detail = json.value("detail", "");
    for (const auto& part : json.at("measured")) result.measured.push_back(measurement_of(part));
    return result;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string encode_case_result(const CaseResult& result) {
  nlohmann::json measured = nlohmann::json::array();
  for (const CaseMeasurement& part : result.measured) measured.push_back(json_of(part));
  return nlohmann::json{{"name", result.name},
                        {"verdict", verdict_name(result.verdict)},
                        {"detail", result.detail},
                        {"measured", std::move(measured)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

CaseRunner::~CaseRunner() { close_child(); }

void CaseRunner::close_child() {
  child_.reset();
  for (int* fd : {&output_, &words_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
  buffer_.clear();
}

Status CaseRunner::start_child(const std::vector<std::string>& folders, size_t first) {
  close_child();
  std::string list;
  for (size_t i = first; i < folders.size(); ++i) list += folders[i] + "\n";
  LFARM_ASSIGN_OR_RETURN(int input, memory_file(common::as_bytes(list)));
  auto words = memory_file({});
  int ends[2] = {-1, -1};
  if (!words.ok() || ::pipe2(ends, O_CLOEXEC) != 0) {
    ::close(input);
    return common::internal_error(cat("cannot create a pipe: ", std::strerror(errno)));
  }
  words_ = *words;
  output_ = ends[0];
  common::SpawnOptions spawn;
  spawn.arguments = {"/proc/self/exe", "check-worker", "--state", options_.farm.state};
  auto add = [&spawn](const char* name, const std::string& value) {
    if (value.empty()) return;
    spawn.arguments.emplace_back(name);
    spawn.arguments.push_back(value);
  };
  if (options_.reference) spawn.arguments.emplace_back("--reference");
  if (options_.measure) spawn.arguments.emplace_back("--measure");
  add("--farm", farm_);
  add("--device", options_.farm.device);
  add("--farm-key", options_.farm.server_key);
  add("--keys", options_.farm.keys);
  add("--trust", options_.farm.trust);
  if (options_.budget.candidates > 0) add("--budget", cat(options_.budget.candidates));
  if (options_.budget.seconds > 0) add("--time", cat(options_.budget.seconds));
  add("--seed", cat(options_.budget.seed));
  const common::PlanPolicy& policy = options_.budget.policy;
  add("--numerics", policy.numerics);
  if (policy.memory_bytes > 0) add("--memory", cat(policy.memory_bytes));
  add("--in-flight", options_.budget.in_flight);
  add("--priority", cat(options_.budget.priority));
  spawn.stdin_fd = input;
  spawn.stdout_fd = ends[1];
  spawn.stderr_fd = words_;
  auto child = common::Subprocess::start(spawn);
  ::close(input);
  ::close(ends[1]);
  if (!child.ok()) return child.error();
  child_ = std::move(child).value();
  return {};
}

std::optional<std::string> CaseRunner::read_line(bool* ended) {
  while (true) {
    size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd wanted{output_, POLLIN, 0};
    if (::poll(&wanted, 1, kPollMs) <= 0) return std::nullopt;
    char piece[4096];
    ssize_t n = ::read(output_, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      *ended = true;
      return std::nullopt;
    }
    buffer_.append(piece, static_cast<size_t>(n));
  }
}

// The last line that the child wrote to standard error.
std::string CaseRunner::child_words() const {
  std::string text(kWordsMax, '\0');
  off_t size = ::lseek(words_, 0, SEEK_END);
  off_t from = size > static_cast<off_t>(kWordsMax) ? size - static_cast<off_t>(kWordsMax) : 0;
  ssize_t n = ::pread(words_, text.data(), text.size(), from);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

CaseResult CaseRunner::failed(const std::string& folder, const std::string& how) {
  CaseResult result;
  result.name = case_name(folder);
  std::string words = child_words();
  result.detail = words.empty() ? how : cat(how, ": ", words);
  return result;
}

Status CaseRunner::run(const std::vector<std::string>& folders,
                       const std::function<void(const CaseResult&)>& on_result,
                       const std::function<Status()>& on_wait) {
  common::SteadyClock clock;
  auto limit_ns = static_cast<int64_t>(timeout_s_ * 1e9);
  int64_t since_ns = clock.now_ns();
  for (size_t next = 0; next < folders.size();) {
    if (!child_) LFARM_RETURN_IF_ERROR(start_child(folders, next));
    LFARM_RETURN_IF_ERROR(on_wait());
    bool ended = false;
    std::optional<CaseResult> result;
    if (auto line = read_line(&ended)) result = decode(*line);
    if (ended) {
      common::ExitStatus status = child_->wait(-1).value_or(common::ExitStatus{});
      result = failed(folders[next], status.signal != 0
                                         ? cat("the process died of ", ::strsignal(status.signal))
                                         : cat("the process ended with code ", status.code));
    } else if (!result && clock.now_ns() - since_ns > limit_ns) {
      result = failed(folders[next], cat("no result after ", timeout_s_, " s"));
      ended = true;
    }
    if (!result) continue;
    if (ended) close_child();
    result->seconds = static_cast<double>(clock.now_ns() - since_ns) * 1e-9;
    on_result(*result);
    since_ns = clock.now_ns();
    ++next;
  }
  return {};
}

}  // namespace clients
