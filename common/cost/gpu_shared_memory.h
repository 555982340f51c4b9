// How much shared memory blocks of a GPU's threads may have.
#pragma once

#include <cstdint>

namespace common {

// What every GPU with tensor cores for bfloat16 gives one block, beyond which a kernel could not
// run everywhere; those of compute capability 9.0; and what a block gets without asking at the
// launch.
inline constexpr int64_t kGpuSharedBytesMax = 99 * 1024;
inline constexpr int64_t kHopperSharedBytesMax = 227 * 1024;
inline constexpr int64_t kGpuStaticSharedBytes = 48 * 1024;

}  // namespace common
