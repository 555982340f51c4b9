#include "tests/chaos/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/cat.h"

namespace chaos {
namespace {

using common::cat;

}  // namespace

std::string describe(const common::ExitStatus& status) {
  if (status.signal != 0) return cat("died of ", ::strsignal(status.signal));
  return status.code == 0 ? "" : cat("ended with code ", status.code);
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  // Of every thread: children belong to the one that started them.
  std::error_code ignored;
  for (const auto& task :
       std::filesystem::directory_iterator(cat("/proc/", pid, "/task"), ignored)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child; list >> child;) found.push_back(child);
  }
  return found;
}

Supervised::Supervised(std::string name, std::vector<std::string> arguments, std::string log,
                       const common::ChildSetup* where, int64_t restart_ns)
    : name_(std::move(name)),
      arguments_(std::move(arguments)),
      log_(std::move(log)),
      where_(where),
      pause_ns_(restart_ns) {}

common::Status Supervised::start() {
  int log = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return common::invalid_input(cat("cannot write ", log_));
  common::SpawnOptions options;
  options.arguments = arguments_;
  options.stdout_fd = options.stderr_fd = log;
  options.new_process_group = true;
  options.setup = where_;
  auto process = common::Subprocess::start(options);
  ::close(log);
  if (!process.ok()) return process.error();
  process_ = std::move(process).value();
  expected_ = false;
  return {};
}

std::string Supervised::tend(int64_t now_ns, bool exits_are_deaths) {
  if (!process_) {
    if (now_ns < restart_ns_) return "";
    common::Status started = start();
    return started.ok() ? "" : started.error().message;
  }
  auto ended = process_->poll();
  if (!ended) return "";
  process_.reset();
  restart_ns_ = now_ns + pause_ns_;
  if (expected_ || (ended->signal == 0 && !exits_are_deaths)) return "";
  std::string how = describe(*ended);
  return cat(name_, " ", how.empty() ? "ended" : how, " by itself");
}

void Supervised::kill() {
  if (!process_) return;
  expected_ = true;
  // Only the process: what it started must notice by itself.
  process_->send_signal(SIGKILL);
}

void Supervised::terminate() {
  if (!process_) return;
  expected_ = true;
  process_->send_signal(SIGTERM);
}

void Supervised::stop() {
  if (process_) process_->send_signal(SIGSTOP);
}

void Supervised::resume() {
  if (process_) process_->send_signal(SIGCONT);
}

std::string Supervised::finish(int timeout_ms) {
  if (!process_) return "";
  process_->send_signal(SIGTERM);
  auto ended = process_->wait(timeout_ms);
  std::string how = ended ? describe(*ended) : "does not end on SIGTERM";
  process_.reset();
  return how.empty() ? "" : cat(name_, " ", how);
}

}  // namespace chaos
