// Child processes that can be stopped for a moment, with whatever they started.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <set>

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

 private:
  void signal_all(int signal);
  std::mutex mutex_;  // guards what follows
  std::set<pid_t> groups_;
  bool paused_ = false;
};

}  // namespace common
