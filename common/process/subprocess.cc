#include "common/process/subprocess.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/process/priority.h"

namespace common {
namespace {

ExitStatus decode(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

void redirect(int from, int to, int null_flags) {
  int fd = from >= 0 ? from : ::open("/dev/null", null_flags);
  if (fd != to)
    ::dup2(fd, to);
  else
    ::fcntl(fd, F_SETFD, 0);
}

// Kernels before 5.11 are asked for one descriptor after another, up to here.
constexpr int kDescriptorsMax = 4096;

// From the first one that is no standard stream: on exec.
void close_descriptors() {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd < kDescriptorsMax; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Of the same name: the later one counts.
std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> merged;
  auto name = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool changed = std::any_of(changes.begin(), changes.end(), [&](const std::string& change) {
      return name(change) == name(*entry);
    });
    if (!changed) merged.emplace_back(*entry);
  }
  merged.insert(merged.end(), changes.begin(), changes.end());
  return merged;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Runs in the child between fork and exec: only async-signal-safe calls.
[[noreturn]] void run_child(const SpawnOptions& options, char* const* argv, char* const* envp,
                            pid_t parent, int report_fd) {
  if (options.die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
  }
  if (options.in_background) give_way();
  if (options.new_process_group) ::setpgid(0, 0);
  redirect(options.stdin_fd, 0, O_RDONLY);
  if (options.stdout_fd >= 0) redirect(options.stdout_fd, 1, O_WRONLY);
  if (options.stderr_fd >= 0) redirect(options.stderr_fd, 2, O_WRONLY);
  close_descriptors();
  for (int fd : options.kept_fds) ::fcntl(fd, F_SETFD, 0);
  SetupFailure failure;
  if (options.setup != nullptr) failure = options.setup->enter();
  if (failure.error != 0) {
    (void)!::write(report_fd, &failure, sizeof failure);
    ::_exit(127);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(argv[0], argv, envp);
  failure = {errno, nullptr};
  (void)!::write(report_fd, &failure, sizeof failure);
  ::_exit(127);
}

}  // namespace

Result<Subprocess> Subprocess::start(const SpawnOptions& options) {
  LFARM_CHECK(!options.arguments.empty(), "no program given");
  std::vector<char*> argv = pointers(options.arguments);
  std::vector<std::string> environment = merged_environment(options.environment);
  std::vector<char*> envp = pointers(environment);
  int report[2];  // carries a failure; closes silently when exec succeeds
  if (::pipe2(report, O_CLOEXEC) != 0) {
    return internal_error(cat("cannot create a pipe: ", std::strerror(errno)));
  }
  pid_t parent = ::getpid();
  pid_t pid = ::fork();
  if (pid == 0) run_child(options, argv.data(), envp.data(), parent, report[1]);
  ::close(report[1]);
  if (pid < 0) {
    ::close(report[0]);
    return internal_error(cat("cannot start ", options.arguments[0], ": ", std::strerror(errno)));
  }
  SetupFailure failure;
  ssize_t n;
  do {
    n = ::read(report[0], &failure, sizeof failure);
  } while (n < 0 && errno == EINTR);
  ::close(report[0]);
  if (n != sizeof failure) return Subprocess(pid, options.new_process_group);
  ::waitpid(pid, nullptr, 0);
  std::string start = cat("cannot start ", options.arguments[0], ": ");
  if (failure.what == nullptr) return invalid_input(cat(start, std::strerror(failure.error)));
  return internal_error(cat(start, failure.what, ": ", std::strerror(failure.error)));
}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(leads_group_, other.leads_group_);
  return *this;
}

Subprocess::~Subprocess() {
  if (pid_ <= 0) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

std::optional<ExitStatus> Subprocess::poll() {
  if (pid_ <= 0) return ExitStatus{};
  int status = 0;
  pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  pid_ = -1;
  return ended < 0 ? ExitStatus{127, 0} : decode(status);
}

std::optional<ExitStatus> Subprocess::wait(int timeout_ms) {
  if (pid_ <= 0) return ExitStatus{};
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd >= 0) {
    pollfd wanted{pidfd, POLLIN, 0};
    SteadyClock clock;
    int64_t deadline = clock.now_ns() + static_cast<int64_t>(timeout_ms) * 1'000'000;
    while (true) {
      int left =
          timeout_ms < 0
              ? -1
              : static_cast<int>(std::max<int64_t>(0, (deadline - clock.now_ns()) / 1'000'000));
      int n = ::poll(&wanted, 1, left);
      if (n >= 0 || errno != EINTR) break;
    }
    ::close(pidfd);
  }
  return poll();
}

void Subprocess::send_signal(int signal) {
  if (pid_ > 0) ::kill(pid_, signal);
}

void Subprocess::kill() {
  if (pid_ > 0) ::kill(leads_group_ ? -pid_ : pid_, SIGKILL);
}

Result<CommandOutput> run_command(const std::vector<std::string>& arguments, int timeout_ms,
                                  size_t max_output) {
  SpawnOptions options;
  options.arguments = arguments;
  return run_command(std::move(options), timeout_ms, max_output);
}

Result<CommandOutput> run_command(SpawnOptions options, int timeout_ms, size_t max_output) {
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return internal_error(cat("cannot create a pipe: ", std::strerror(errno)));
  }
  options.stdout_fd = pipe_fds[1];
  options.stderr_fd = pipe_fds[1];
  options.new_process_group = true;
  auto child = Subprocess::start(options);
  ::close(pipe_fds[1]);
  if (!child.ok()) {
    ::close(pipe_fds[0]);
    return child.error();
  }
  if (options.pausable != nullptr) options.pausable->add(child->pid());
  CommandOutput result;
  SteadyClock clock;
  int64_t deadline = clock.now_ns() + static_cast<int64_t>(timeout_ms) * 1'000'000;
  char buffer[16384];
  while (true) {
    pollfd wanted{pipe_fds[0], POLLIN, 0};
    int64_t left = (deadline - clock.now_ns()) / 1'000'000;
    if (left <= 0) {
      result.timed_out = true;
      child->kill();
      break;
    }
    int n = ::poll(&wanted, 1, static_cast<int>(left));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) continue;
    ssize_t got = ::read(pipe_fds[0], buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size_t room = max_output - std::min(max_output, result.output.size());
    result.output.append(buffer, std::min(room, static_cast<size_t>(got)));
  }
  ::close(pipe_fds[0]);
  if (options.pausable != nullptr) options.pausable->remove(child->pid());
  result.status = child->wait(-1).value_or(ExitStatus{127, 0});
  return result;
}

std::string executable_directory() {
  std::error_code error;
  auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : path.parent_path().string();
}

}  // namespace common
