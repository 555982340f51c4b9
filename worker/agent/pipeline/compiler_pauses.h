// Stops this worker's compilers while anyone on this machine times something on its processors.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "worker/compile/compiler.h"
#include "worker/profile/device_lock.h"

namespace worker {

// Watches the device's lock while something is compiled. Compilers run for at least as long as they
// stood still before, so that neighbours who measure without end cannot stop them.
class CompilerPauses {
 public:
  // `device`: the lock's name.
  CompilerPauses(std::shared_ptr<const Compiler> compiler, std::string device);
  ~CompilerPauses();
  CompilerPauses(const CompilerPauses&) = delete;
  CompilerPauses& operator=(const CompilerPauses&) = delete;

  // Around each compilation.
  void begin() { set_compiling(true); }
  void end() { set_compiling(false); }

 private:
  void set_compiling(bool is_compiling);
  void watch();

  const std::shared_ptr<const Compiler> compiler_;
  DeviceLockProbe probe_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool is_compiling_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace worker
