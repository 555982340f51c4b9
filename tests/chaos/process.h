// A process that is started again whenever it ends, as a supervisor would, and that tells deaths by
// the hand of the test from deaths of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/process/subprocess.h"

namespace chaos {

// How a program ended by itself; empty text: as it should have.
std::string describe(const common::ExitStatus& status);

// Numbers of a process's children.
std::vector<pid_t> children_of(pid_t pid);

class Supervised {
 public:
  // `log`: a file that the program's output is added to. `where` may be null and outlives this.
  // `restart_ns`: how long it is away after it ended.
  Supervised(std::string name, std::vector<std::string> arguments, std::string log,
             const common::ChildSetup* where, int64_t restart_ns = kRestartNs);
  // As long as an init system waits.
  static constexpr int64_t kRestartNs = 200'000'000;

  const std::string& name() const { return name_; }
  bool runs() const { return process_.has_value(); }
  pid_t pid() const { return process_ ? process_->pid() : 0; }
  common::Status start();
  // Looks after it; starts it again after a pause. To be called often. Returns how it died when it
  // was not this object that killed it; exits with a code are such deaths only while
  // `exits_are_deaths`.
  std::string tend(int64_t now_ns, bool exits_are_deaths);
  void kill();       // SIGKILL
  void terminate();  // SIGTERM: it may end with code 0
  void stop();       // SIGSTOP
  void resume();     // SIGCONT
  // Ends it for good with SIGTERM; how that went.
  std::string finish(int timeout_ms);
  std::vector<pid_t> children() const { return runs() ? children_of(pid()) : std::vector<pid_t>(); }

 private:
  std::string name_;
  std::vector<std::string> arguments_;
  std::string log_;
  const common::ChildSetup* where_;
  const int64_t pause_ns_;
  std::optional<common::Subprocess> process_;
  bool expected_ = false;  // the next death is this object's doing
  int64_t restart_ns_ = 0;
};

}  // namespace chaos
