#include "clients/cli/access/farm_processes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "clients/cli/access/farm_keys.h"
#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/signals.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/cuda/driver.h"
#include "common/wire/socket.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;
using common::Subprocess;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kStartMsMax = 15'000;
// A process that dies more often than this within this time stays dead.
constexpr size_t kDeathsMax = 5;
constexpr int64_t kDeathsWindowMs = 60'000;
constexpr int64_t kFirstRestartMs = 100;
// Both together leave time to spare below five seconds.
constexpr int kWorkersOfProcessors = 2;
constexpr int kDrainMs = 2'500;
constexpr int kCoordinatorStopMs = 1'500;
constexpr int kExitUsageOfChild = 2;
constexpr int kExitUnavailableOfChild = 4;
constexpr off_t kLogBytesMax = off_t{16} << 20;

int64_t now_ns() { return common::SteadyClock().now_ns(); }

std::string sibling(const char* program) {
  return cat(common::executable_directory(), "/", program);
}

// 0 where workers are for another device.
Result<int> count_gpus(const std::string& device) {
  if (device != "cuda") return 0;
  LFARM_ASSIGN_OR_RETURN(auto driver, common::CudaDriver::open());
  return driver->device_count();
}

common::Code code_of_child(int exit_code) {
  if (exit_code == kExitUsageOfChild) return common::Code::kInvalidInput;
  if (exit_code == kExitUnavailableOfChild) return common::Code::kUnavailable;
  return common::Code::kInternal;
}

// A machine may have the client alone, as the package lfarm-client installs it.
common::Status check_programs() {
  for (const char* program : {"lfarm-coordinator", "lfarm-worker"}) {
    std::string path = sibling(program);
    if (common::file_exists(path)) continue;
    return common::invalid_input(cat("no farm can be started here: there is no ", path,
                                     "; install the package lfarm-farm, or name a farm with "
                                     "--farm"));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<FarmProcesses>> FarmProcesses::start(FarmProcessOptions options) {
  LFARM_RETURN_IF_ERROR(check_programs());
  LFARM_ASSIGN_OR_RETURN(auto lock, FarmLock::try_take(options.state));
  if (!lock) return std::unique_ptr<FarmProcesses>();
  std::unique_ptr<FarmProcesses> farm(new FarmProcesses(std::move(options)));
  farm->lock_ = std::move(lock);
  farm->coordinator_.name = "coordinator";
  // What a farm that was killed left behind.
  ::unlink(farm->options_.state.endpoint_file().c_str());
  LFARM_RETURN_IF_ERROR(common::make_directories(farm->options_.state.logs()));
  if (!common::is_local_endpoint(farm->options_.listen)) {
    LFARM_ASSIGN_OR_RETURN(farm->public_key_, prepare_farm_keys(farm->options_.state));
  }
  LFARM_RETURN_IF_ERROR(farm->start_coordinator(farm->options_.listen));
  LFARM_ASSIGN_OR_RETURN(int gpus, count_gpus(farm->options_.device));
  std::optional<int> gpu = farm->options_.gpu;
  int workers = farm->options_.workers;
  if (workers == kWorkersOfDevice) workers = gpu ? 1 : gpus > 0 ? gpus : kWorkersOfProcessors;
  farm->workers_.resize(static_cast<size_t>(workers));
  for (size_t i = 0; i < farm->workers_.size(); ++i) {
    farm->workers_[i].name = cat("worker-", i + 1);
    if (gpus > 1) farm->workers_[i].gpu = gpu.value_or(static_cast<int>(i) % gpus);
    LFARM_RETURN_IF_ERROR(farm->start_worker(&farm->workers_[i]));
  }
  farm->searchers_.resize(static_cast<size_t>(farm->options_.searchers));
  for (size_t i = 0; i < farm->searchers_.size(); ++i) {
    farm->searchers_[i].name = cat("searcher-", i + 1);
    LFARM_RETURN_IF_ERROR(farm->start_searcher(&farm->searchers_[i]));
  }
  return farm;
}

FarmProcesses::~FarmProcesses() { stop(); }

std::string FarmProcesses::log_path(const Child& child) const {
  return cat(options_.state.logs(), "/", child.name, ".log");
}

// The last line of a child's log: what it said before it ended.
std::string FarmProcesses::last_words(const Child& child) const {
  auto text = common::read_file(log_path(child));
  if (!text.ok()) return "";
  std::string_view rest = *text;
  while (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  rest.remove_prefix(rest.rfind('\n') == std::string_view::npos ? 0 : rest.rfind('\n') + 1);
  // "lfarm-coordinator: MESSAGE" is how the binaries report their own end.
  for (std::string_view prefix : {"lfarm-coordinator: ", "lfarm-worker: "}) {
    if (rest.substr(0, prefix.size()) == prefix) rest.remove_prefix(prefix.size());
  }
  return std::string(rest);
}

Status FarmProcesses::launch(Child* child, std::vector<std::string> arguments) {
  // A log begins anew with its farm; a child that is started again adds to it.
  std::string path = log_path(*child);
  int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (child->starts == 0 ? O_TRUNC : 0);
  int log = ::open(path.c_str(), flags, 0600);
  if (log < 0) {
    return common::invalid_input(cat("cannot write ", path, ": ", std::strerror(errno)));
  }
  if (::lseek(log, 0, SEEK_END) > kLogBytesMax && ::ftruncate(log, 0) != 0) {
    common::log_warning(cat("cannot shorten ", path));
  }
  common::SpawnOptions spawn;
  spawn.arguments = std::move(arguments);
  spawn.stdout_fd = log;
  spawn.stderr_fd = log;
  spawn.new_process_group = true;
  auto process = Subprocess::start(spawn);
  ::close(log);
  if (!process.ok()) return process.error();
  child->process = std::move(process).value();
  child->starts += 1;
  child->restart_at_ns = 0;
  return {};
}

Status FarmProcesses::start_coordinator(const std::string& listen) {
  ::unlink(options_.endpoint_file.c_str());
  std::vector<std::string> arguments = {sibling("lfarm-coordinator"),
                                        "--listen",
                                        listen,
                                        "--state",
                                        options_.state.path,
                                        "--endpoint-file",
                                        options_.endpoint_file};
  std::string http_file = options_.state.path + "/http";
  ::unlink(http_file.c_str());
  if (!options_.http.empty()) {
    arguments.insert(arguments.end(), {"--http", options_.http, "--http-file", http_file});
  }
  std::string searchers_file = options_.state.path + "/searchers";
  if (options_.searchers > 0) {
    // A coordinator that is started again takes searchers where this one did.
    std::string there = searchers_endpoint_.empty() ? "tcp://127.0.0.1:*" : searchers_endpoint_;
    arguments.insert(arguments.end(), {"--searchers", there, "--searchers-file", searchers_file});
  }
  arguments.insert(arguments.end(), options_.coordinator.begin(), options_.coordinator.end());
  LFARM_RETURN_IF_ERROR(launch(&coordinator_, std::move(arguments)));
  int64_t deadline = now_ns() + kStartMsMax * kNsPerMs;
  while (true) {
    endpoint_ = read_endpoint(options_.endpoint_file);
    if (!endpoint_.empty()) {
      // Written before. A coordinator that is started again serves where this one did.
      if (!options_.http.empty()) options_.http = read_endpoint(http_file);
      if (options_.searchers > 0) searchers_endpoint_ = read_endpoint(searchers_file);
      return {};
    }
    if (auto ended = coordinator_.process->poll()) {
      coordinator_.process.reset();
      std::string words = last_words(coordinator_);
      if (words.empty()) words = cat("the coordinator ended; see ", log_path(coordinator_));
      return common::Error{code_of_child(ended->code), words};
    }
    LFARM_RETURN_IF_ERROR(check_stop());
    if (now_ns() > deadline) {
      return common::Error{common::Code::kTimedOut,
                           cat("the coordinator did not start within ", kStartMsMax / 1000,
                               " s; see ", log_path(coordinator_))};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Status FarmProcesses::start_worker(Child* child) {
  // A worker that is started again is another one to the farm.
  std::string name = child->starts == 0 ? child->name : cat(child->name, "-", child->starts + 1);
  std::vector<std::string> arguments = {sibling("lfarm-worker"),
                                        "--farm",
                                        endpoint_,
                                        "--device",
                                        options_.device,
                                        "--name",
                                        name,
                                        "--state",
                                        options_.state.path + "/worker"};
  if (child->gpu) arguments.insert(arguments.end(), {"--gpu", cat(*child->gpu)});
  if (!public_key_.empty()) {
    arguments.insert(arguments.end(),
                     {"--key", options_.state.worker_key(), "--farm-key", public_key_});
  }
  return launch(child, std::move(arguments));
}

Status FarmProcesses::start_searcher(Child* child) {
  std::vector<std::string> arguments = {
      sibling("lfarm-coordinator"), "--role", "search",   "--coordinator",
      searchers_endpoint_,          "--name", child->name};
  if (!public_key_.empty()) {
    arguments.insert(arguments.end(),
                     {"--key", options_.state.worker_key(), "--farm-key", public_key_});
  }
  return launch(child, std::move(arguments));
}

Status FarmProcesses::died(Child* child, common::ExitStatus status) {
  child->process.reset();
  std::string how =
      status.signal != 0 ? cat("signal ", status.signal) : cat("exit code ", status.code);
  if (status.signal == 0 && status.code == kExitUsageOfChild) {
    return common::invalid_input(cat(child->name, " does not start: ", last_words(*child)));
  }
  int64_t now = now_ns();
  auto& deaths = child->deaths_ns;
  deaths.erase(std::remove_if(deaths.begin(), deaths.end(),
                              [now](int64_t t) { return now - t > kDeathsWindowMs * kNsPerMs; }),
               deaths.end());
  deaths.push_back(now);
  if (deaths.size() > kDeathsMax) {
    return common::internal_error(cat(child->name, " died ", deaths.size(), " times in a minute (",
                                      how, "); see ", log_path(*child)));
  }
  child->restart_at_ns = now + (kFirstRestartMs << (deaths.size() - 1)) * kNsPerMs;
  common::log_warning(cat(child->name, " died (", how, "); starting it again"));
  return {};
}

Status FarmProcesses::tend(Child* child) {
  if (child->process) {
    if (auto ended = child->process->poll()) return died(child, *ended);
    return {};
  }
  if (child->restart_at_ns == 0 || now_ns() < child->restart_at_ns) return {};
  return start_again(child);
}

Status FarmProcesses::start_again(Child* child) {
  if (child == &coordinator_) return start_coordinator(endpoint_);
  bool searches = std::any_of(searchers_.begin(), searchers_.end(),
                              [&](const Child& searcher) { return &searcher == child; });
  return searches ? start_searcher(child) : start_worker(child);
}

Status FarmProcesses::tend() {
  LFARM_RETURN_IF_ERROR(tend(&coordinator_));
  for (Child& worker : workers_) LFARM_RETURN_IF_ERROR(tend(&worker));
  for (Child& searcher : searchers_) LFARM_RETURN_IF_ERROR(tend(&searcher));
  return {};
}

void FarmProcesses::stop() {
  for (Child& worker : workers_) {
    if (worker.process) worker.process->send_signal(SIGTERM);
  }
  int64_t deadline = now_ns() + kDrainMs * kNsPerMs;
  for (Child& worker : workers_) {
    if (!worker.process) continue;
    auto left = std::max<int64_t>(0, (deadline - now_ns()) / kNsPerMs);
    if (!worker.process->wait(static_cast<int>(left))) {
      common::log_warning(cat(worker.name, " did not drain in time; killing it"));
    }
    worker.process.reset();
  }
  if (coordinator_.process) {
    coordinator_.process->send_signal(SIGTERM);
    if (!coordinator_.process->wait(kCoordinatorStopMs)) {
      common::log_warning("the coordinator did not stop in time; killing it");
    }
    coordinator_.process.reset();
    ::unlink(options_.endpoint_file.c_str());
  }
  workers_.clear();
  // They keep nothing, and end at once.
  for (Child& searcher : searchers_) {
    if (searcher.process) searcher.process->kill();
  }
  searchers_.clear();
}

}  // namespace clients
