// Stops this worker's compilers and verification while anyone on this machine times something on
// its processors.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/process/pausable_groups.h"
#include "worker/compile/compiler.h"
#include "worker/profile/device_lock.h"

namespace worker {

// Watches the device's lock while something is compiled or run. What stood still then runs for at
// least as long, so that neighbours who measure without end cannot stop it.
class MeasurementPauses {
 public:
  // `executors`: children that verify, without one that measures. `device`: the lock's name.
  MeasurementPauses(std::shared_ptr<const Compiler> compiler,
                    std::shared_ptr<common::PausableGroups> executors, std::string device);
  ~MeasurementPauses();
  MeasurementPauses(const MeasurementPauses&) = delete;
  MeasurementPauses& operator=(const MeasurementPauses&) = delete;

  // Around each compilation and each run; these may overlap.
  void begin() { add(1); }
  void end() { add(-1); }

 private:
  void add(int activities);
  void watch();
  void pause();
  void resume();

  const std::shared_ptr<const Compiler> compiler_;
  const std::shared_ptr<common::PausableGroups> executors_;
  DeviceLockProbe probe_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int activities_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace worker
