// The executor child: the only process that touches the device. Answers one request after another
// until its pipe closes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/runtime/device.h"

namespace worker {

// The device that the child opens, once for each number of threads that runs ask for.
struct ExecutorDevice {
  // "cpu": measurements on devices of one name and one hardware_id() exclude one another.
  std::string name;
  std::function<common::Result<std::unique_ptr<common::Device>>(int threads)> open;
  bool reserves_addresses = false;  // more than the machine has memory
  bool debug_sequential = false;    // each call is waited for, and printed first
};

// Serves requests from the socket `fd`; returns the exit code once the parent is gone. Sets the
// process's limits: no core dumps, bounded address space (writable memory where the device reserves
// addresses), bounded processor time for candidates.
int run_executor_child(int fd, const ExecutorDevice& device);

}  // namespace worker
