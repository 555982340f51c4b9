// Tensor maps as the driver encodes them for a buffer's address.
#pragma once

#include <array>
#include <cstdint>

#include "common/cuda/driver.h"
#include "common/runtime/device/device.h"

namespace common {

// The map of a launch whose inputs are `buffers`, from `bound` where the buffer lies as it did.
Result<CudaTensorMap> cuda_tensor_map(const CudaDriver& driver, BoundTensorMap& bound,
                                      std::span<void* const> buffers);

}  // namespace common
