// Child processes: start, wait with a deadline, signal. Used for compilers, executors and farms.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/process/pausable_groups.h"

namespace common {

// What could not be done in a new child.
struct SetupFailure {
  int error = 0;               // an errno; 0: nothing failed
  const char* what = nullptr;  // static text
};

// Something that a new child does before it becomes its program.
class ChildSetup {
 public:
  virtual ~ChildSetup() = default;
  // Runs between fork and exec, so async-signal-safe calls only. A failure fails the start.
  virtual SetupFailure enter() const = 0;
};

struct SpawnOptions {
  std::vector<std::string> arguments;  // arguments[0] is the program, looked up in PATH
  int stdin_fd = -1;                   // -1: /dev/null
  int stdout_fd = -1;                  // -1: inherit
  int stderr_fd = -1;                  // -1: inherit
  std::vector<int> kept_fds;           // stay open in the child under the same numbers
  bool die_with_parent = true;         // SIGKILL when the starting thread's process dies
  // Keeps the terminal's Ctrl-C away from the child. What the child started then ends with it, when
  // it is killed here.
  bool new_process_group = false;
  // Gives way to processes of usual priority: for work that must not disturb measurements.
  bool in_background = false;
  PausableGroups* pausable = nullptr;    // of run_command: the command is one of them while it runs
  std::vector<std::string> environment;  // "NAME=value", beside or in place of this process's
  const ChildSetup* setup = nullptr;     // outlives the start
};

// How a child ended.
struct ExitStatus {
  int code = 0;    // exit code when signal is 0
  int signal = 0;  // the signal that ended it, else 0
};

// A running child. No descriptors of this process are open in it but those that its options name.
// Destruction kills and reaps it. Not thread-safe.
class Subprocess {
 public:
  // kInvalidInput when the program cannot be started.
  static Result<Subprocess> start(const SpawnOptions& options);
  Subprocess(Subprocess&& other) noexcept : pid_(other.pid_), leads_group_(other.leads_group_) {
    other.pid_ = -1;
  }
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();

  pid_t pid() const { return pid_; }
  // Empty while it runs. After it returned a status, the child is reaped.
  std::optional<ExitStatus> poll();
  // Waits at most `timeout_ms`; empty when it still runs then. Negative waits for ever.
  std::optional<ExitStatus> wait(int timeout_ms);
  void send_signal(int signal);
  // SIGKILL, to the child's whole process group where it has its own.
  void kill();

 private:
  Subprocess(pid_t pid, bool leads_group) : pid_(pid), leads_group_(leads_group) {}
  pid_t pid_ = -1;
  bool leads_group_ = false;
};

struct CommandOutput {
  ExitStatus status;
  std::string output;  // standard output and standard error, at most `max_output` bytes
  bool timed_out = false;
};

// Runs a command to its end, killing it and what it started at the deadline, pauses included. Of
// `options` its output and its process group are taken care of.
Result<CommandOutput> run_command(SpawnOptions options, int timeout_ms,
                                  size_t max_output = 1 << 20);
Result<CommandOutput> run_command(const std::vector<std::string>& arguments, int timeout_ms,
                                  size_t max_output = 1 << 20);

// The folder of the running binary, for finding its siblings.
std::string executable_directory();

}  // namespace common
