// NVIDIA GPUs as a device: objects are cubins, buffers are device memory, launches go to one
// stream.
#pragma once

#include <memory>

#include "common/runtime/device/device.h"
#include "common/runtime/device/device_allocator.h"

namespace common {

// What plans for this machine's GPU, of those visible the one at `index`, are made for:
// "cuda-sm_90a". Asks the driver only, so that the process stays free of the device. kUnavailable
// says what is missing.
Result<Target> find_cuda_target(int index = 0);

struct CudaDeviceOptions {
  int index = 0;  // among the devices that $CUDA_VISIBLE_DEVICES leaves visible
  // Refuse products for whose sizes the library lists too few algorithms, so that a measurement is
  // of what was asked for; else such products take the first.
  bool exact_algorithms = false;
  DeviceAllocator allocator;  // of all device memory
};

// A device with its primary context, which other users of CUDA in this process share. A thread's
// current context is after each call what it was before. kUnavailable says what is missing.
Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options = {});

}  // namespace common
