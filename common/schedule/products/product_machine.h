// What blocks of a GPU's products depend on beside the product.
#pragma once

#include <cstdint>

#include "common/ir/llir/llir.h"

namespace common {

struct ProductMachine {
  bool warpgroups = false;  // multiply
  int64_t processors = 1;   // multiprocessors, which blocks are to fill; any number is right
};

// What every GPU with tensor cores for bfloat16 gives one block of its shared memory, beyond which
// a kernel could not run everywhere; and what a block gets without asking at the launch.
inline constexpr int64_t kBlockSharedBytes = 99 * 1024;
inline constexpr int64_t kHopperBlockSharedBytes = 227 * 1024;  // of compute capability 9.0
inline constexpr int64_t kStaticSharedBytes = 48 * 1024;
inline constexpr int64_t kSplitsMax = 1024;  // blocks that share a sum

inline int64_t tile_parameter(const Schedule& schedule, std::string_view name) {
  return schedule_value(schedule, Template::kTile, name);
}

}  // namespace common
