// Measuring on a machine that does other things too: a process ahead of all that is not urgent.
#pragma once

#include <sys/types.h>

#include "common/base/result.h"

namespace bench {

// While it lives, all threads that the process has now are scheduled ahead of those of other
// processes (SCHED_FIFO), as are those that they start; then as usual again. kUnavailable when the
// system does not allow it.
class RealTime {
 public:
  static common::Result<RealTime> begin(pid_t process);
  RealTime(RealTime&& other) noexcept : process_(other.process_) { other.process_ = -1; }
  RealTime& operator=(RealTime&&) = delete;
  ~RealTime();

 private:
  explicit RealTime(pid_t process) : process_(process) {}
  pid_t process_ = -1;
};

}  // namespace bench
