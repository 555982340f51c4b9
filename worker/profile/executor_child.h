// The executor child: the only process that touches the device. Answers one request after another
// until its pipe closes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/runtime/device/device.h"

namespace worker {

// The device that the child opens, once for each number of threads that runs ask for.
struct ExecutorDevice {
  // "cpu": measurements on devices of one name and one hardware_id() exclude one another.
  std::string name;
  std::function<common::Result<std::unique_ptr<common::Device>>(int threads)> open;
  // A driver reserves more addresses than the machine has memory, and may start helpers. Without
  // one, candidates are machine code of this process, which then starts nothing and signals nobody.
  bool has_driver = false;
  bool debug_sequential = false;  // each call is waited for, and printed first
  uint64_t memory_bytes_max = 0;  // that the process can write to; 0: what the machine has
};

// Serves requests from the socket `fd`; returns the exit code once the parent is gone. Sets the
// process's limits: no core dumps, bounded writable memory, bounded processor time for candidates.
int run_executor_child(int fd, const ExecutorDevice& device);

}  // namespace worker
