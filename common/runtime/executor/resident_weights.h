// Weights in a device's own memory that several executors use, one after another or together.
#pragma once

#include <map>

#include "common/base/result.h"
#include "common/runtime/device/device.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/executor/executor_memory.h"
#include "common/runtime/tensor/tensor.h"

namespace common {

// Each weight is copied to the device once, between bands of kGuardBand, so that executors with
// and without guards take it where it lies. The device outlives this, and the executors do not. Not
// thread-safe.
class ResidentWeights {
 public:
  // Where an executor of `device`, which has memory of its own, finds the weight.
  Result<TensorRef> find(Device& device, const HostTensor& weight);

 private:
  struct Resident {
    HostTensor host;  // keeps the address that it is found by
    GuardedMemory memory;
    uint64_t hash = 0;
  };
  std::map<std::pair<Device*, const std::byte*>, Resident> residents_;
};

}  // namespace common
