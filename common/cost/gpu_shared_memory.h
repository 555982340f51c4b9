// How much shared memory kernels may ask for that are to run on every GPU.
#pragma once

#include <cstdint>

namespace common {

// What every GPU with tensor cores for bfloat16 gives one block.
inline constexpr int64_t kGpuSharedBytesMax = 99 * 1024;

}  // namespace common
