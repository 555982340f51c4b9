// Processes that keep the machine busy, as neighbours do: for measurements of what that changes.
#pragma once

#include <sys/types.h>

#include <vector>

namespace bench {

// Half of them compute, half of them move memory through the caches. They end with this object,
// with the process that made it, and by themselves after an hour.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count);
  ~BusyProcesses();
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> children_;
};

}  // namespace bench
