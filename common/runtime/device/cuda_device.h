// NVIDIA GPUs as a device: objects are cubins, buffers are device memory, launches go to one
// stream.
#pragma once

#include <memory>

#include "common/runtime/device/device.h"

namespace common {

// What plans for this machine's GPU are made for: "cuda-sm_90a". Asks the driver only, so that the
// process stays free of the device. kUnavailable says what is missing.
Result<Target> find_cuda_target();

struct CudaDeviceOptions {
  // Refuse products for whose sizes the library lists too few algorithms, so that a measurement is
  // of what was asked for; else such products take the first.
  bool exact_algorithms = false;
};

// The first device of those that $CUDA_VISIBLE_DEVICES leaves visible, with its primary context,
// which other users of CUDA in this process share. kUnavailable says what is missing.
Result<std::unique_ptr<Device>> open_cuda_device(CudaDeviceOptions options = {});

}  // namespace common
