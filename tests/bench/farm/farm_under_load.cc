#include "tests/bench/farm/farm_under_load.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <thread>
#include <utility>

#include "common/base/cat.h"

namespace bench {

using common::cat;
using common::Result;
using common::Status;

namespace {

constexpr auto kStartPatience = std::chrono::seconds(60);
constexpr auto kLookAgain = std::chrono::milliseconds(1);

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// A "VmHWM:   123 kB" line of /proc/PID/status, in MiB.
double status_mb(const std::string& text, const std::string& name) {
  size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + name.size()) / 1024;
}

// Its words are not the benchmark's lines.
Result<common::Subprocess> start_quietly(std::vector<std::string> arguments) {
  common::SpawnOptions spawn;
  spawn.arguments = std::move(arguments);
  int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  spawn.stdout_fd = nowhere;
  auto process = common::Subprocess::start(spawn);
  ::close(nowhere);
  return process;
}

}  // namespace

ProcessUse process_use(int pid) {
  ProcessUse use;
  std::string directory = cat("/proc/", pid);
  auto stat = common::read_file(directory + "/stat");
  auto status = common::read_file(directory + "/status");
  if (!stat.ok() || !status.ok()) return use;
  // Behind the name in brackets: state, ten numbers, then user and system time in ticks.
  std::istringstream fields(stat->substr(stat->rfind(')') + 1));
  std::string skipped;
  for (int field = 0; field < 11; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  use.cpu_s = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  use.peak_mb = status_mb(*status, "VmHWM:");
  use.now_mb = status_mb(*status, "VmRSS:");
  return use;
}

Result<std::unique_ptr<FarmUnderLoad>> FarmUnderLoad::create(FarmOptions options) {
  std::unique_ptr<FarmUnderLoad> farm(new FarmUnderLoad(std::move(options)));
  LFARM_ASSIGN_OR_RETURN(common::ScratchDirectory scratch,
                         common::ScratchDirectory::create("lfarm-bench"));
  farm->scratch_.emplace(std::move(scratch));
  if (farm->options_.state.empty()) farm->options_.state = farm->scratch_->path() + "/state";
  LFARM_RETURN_IF_ERROR(common::make_directories(farm->options_.state));
  if (farm->options_.curve) LFARM_RETURN_IF_ERROR(farm->make_keys());
  return farm;
}

// One key for all peers: the handshakes are the same as with many. Coordinators of one farm have
// the same two.
Status FarmUnderLoad::make_keys() {
  LFARM_ASSIGN_OR_RETURN(common::KeyPair server,
                         common::load_or_create_key_pair(options_.state + "/farm.key"));
  LFARM_ASSIGN_OR_RETURN(common::KeyPair own,
                         common::load_or_create_key_pair(options_.state + "/client.key"));
  std::string allowed = cat(own.public_key, " ", kLoadTenant, " submit,read,worker,admin\n");
  LFARM_RETURN_IF_ERROR(
      common::write_file_atomic(options_.state + "/allow", common::as_bytes(allowed)));
  keys_ = common::ClientKeys{own, server.public_key};
  return {};
}

Status FarmUnderLoad::start() {
  std::string file = scratch_->path() + "/endpoint";
  ::unlink(file.c_str());
  // The port stays the same, so that peers find the next coordinator where the first one was.
  std::string listen = endpoint_.empty() ? "tcp://127.0.0.1:0" : endpoint_;
  std::string searchers_file = scratch_->path() + "/searchers";
  std::vector<std::string> arguments = {
      "/proc/self/exe",  options_.real_search ? "searching-coordinator" : "coordinator",
      "--state",         options_.state,
      "--listen",        listen,
      "--endpoint-file", file,
      "--log",           "warning"};
  if (options_.curve) arguments.push_back("--secure");
  if (options_.searchers > 0) {
    arguments.insert(arguments.end(),
                     {"--searchers", "tcp://127.0.0.1:*", "--searchers-file", searchers_file});
  }
  arguments.insert(arguments.end(), options_.extra.begin(), options_.extra.end());
  LFARM_ASSIGN_OR_RETURN(process_, start_quietly(std::move(arguments)));
  auto end = std::chrono::steady_clock::now() + kStartPatience;
  while (::access(file.c_str(), R_OK) != 0) {
    if (std::chrono::steady_clock::now() > end || process_->poll()) {
      return common::unavailable("the coordinator did not start");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  LFARM_ASSIGN_OR_RETURN(endpoint_, common::read_file(file));
  endpoint_.pop_back();  // the newline
  return options_.searchers > 0 ? start_searchers(searchers_file) : Status();
}

Status FarmUnderLoad::start_searchers(const std::string& endpoint_file) {
  LFARM_ASSIGN_OR_RETURN(std::string endpoint, common::read_file(endpoint_file));
  endpoint.pop_back();  // the newline
  std::vector<std::string> arguments = {
      "/proc/self/exe", "searching-coordinator", "--role", "search", "--coordinator", endpoint,
      "--searches",     cat(options_.searches),  "--log",  "warning"};
  if (keys_) {
    std::string key_file = scratch_->path() + "/searcher.key";
    if (::access(key_file.c_str(), R_OK) != 0) {
      LFARM_RETURN_IF_ERROR(common::save_key_pair(key_file, keys_->own));
    }
    arguments.insert(arguments.end(), {"--key", key_file, "--farm-key", keys_->server_public_key});
  }
  searchers_.clear();
  for (uint32_t k = 0; k < options_.searchers; ++k) {
    LFARM_ASSIGN_OR_RETURN(common::Subprocess searcher, start_quietly(arguments));
    searchers_.push_back(std::move(searcher));
  }
  return {};
}

void FarmUnderLoad::kill() {
  process_->send_signal(SIGKILL);
  process_->wait(-1);
  process_.reset();
}

ProcessUse FarmUnderLoad::use() const { return process_use(process_->pid()); }

ProcessUse FarmUnderLoad::searchers_use() const {
  ProcessUse all;
  for (const common::Subprocess& searcher : searchers_) {
    ProcessUse use = process_use(searcher.pid());
    all.cpu_s += use.cpu_s;
    all.peak_mb = std::max(all.peak_mb, use.peak_mb);
    all.now_mb = std::max(all.now_mb, use.now_mb);
  }
  return all;
}

double own_cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

double load_average() {
  double loads[1] = {0};
  return ::getloadavg(loads, 1) == 1 ? loads[0] : 0;
}

double percentile(std::vector<double>& samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(samples.size())));
  return samples[std::max<size_t>(rank, 1) - 1];
}

int run_guarded(const char* name, CLI::App& app, const std::vector<std::string>& arguments,
                const std::function<int()>& run) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return run();
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "lfarm-bench %s: %s\n", name, exception.what());
    return 1;
  }
}

}  // namespace bench
