// Child processes that can be stopped for a moment, with whatever they started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <set>

#include "common/base/clock.h"

namespace common {

// Thread-safe.
class PausableGroups {
 public:
  // `group` leads a process group, and is not reaped before remove(). It stops at once when the
  // others are paused.
  void add(pid_t group);
  // Lets it go on where it is paused.
  void remove(pid_t group);
  // Stops all, and those that are added before resume(). Pauses do not nest.
  void pause();
  void resume();
  // Nanoseconds of all pauses so far, of one under way, too.
  int64_t paused_ns() const;

 private:
  void signal_all(int signal);
  SteadyClock clock_;
  mutable std::mutex mutex_;  // guards what follows
  std::set<pid_t> groups_;
  bool paused_ = false;
  int64_t since_ns_ = 0;  // the pause under way
  int64_t earlier_ns_ = 0;
};

}  // namespace common
