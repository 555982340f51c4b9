// How blocks of a GPU's threads share an attention of many rows, and what that takes: for the
// tiling, which cuts rows and keys, and for the search, which predicts the time.
#pragma once

#include <cstdint>
#include <optional>

#include "common/cost/gpu_time.h"

namespace common {

// `rows` share `keys` keys of `depth` and as many values of `width` elements of 16 bits, in each of
// `batch` elements. None is 0.
struct FlashShape {
  int64_t batch = 1, rows = 1, keys = 1, depth = 1, width = 1;
  // That compute an element; 0: it is copied.
  double query_operations = 0, key_operations = 0, value_operations = 0;
  double seen = 1;          // the share of the keys that a row sees
  bool two_parts = false;   // probabilities are multiplied in two parts
  bool two_passes = false;  // scores are computed twice
  bool warpgroups = false;  // may multiply, and the copy engine bring keys and values
};

struct FlashBlocks {
  int64_t rows = 64, keys = 64;  // of a block in a step; 0 in a wish: any
  bool warpgroups = false;       // of 64 rows each, and a warp that copies

  int64_t tiles() const { return rows > 64 && !warpgroups ? 2 : 1; }  // of 16 rows a warp
  int64_t warps() const { return rows / (16 * tiles()); }             // that multiply
};

// At the end of a block's shared memory: where warps leave their ranges of keys.
inline constexpr int64_t kFlashLimitBytes = 64;
// Bytes of shared memory that a block takes: queries, two blocks of keys and of values, and that;
// or its results.
int64_t flash_shared_bytes(const FlashShape& shape, const FlashBlocks& blocks);

// Whether they fit into shared memory, and threads with `tiles` tiles of 16 rows have the
// registers.
bool flash_fits(const FlashShape& shape, const FlashBlocks& blocks, int64_t tiles);

// Of one launch with those blocks.
GpuKernelFacts flash_facts(const FlashShape& shape, const FlashBlocks& blocks);

// The blocks that take least on a GPU with `processors` multiprocessors, by gpu_kernel_time(). What
// is not 0 in `given` is kept where it fits; empty where no block fits.
std::optional<FlashBlocks> flash_blocks(const FlashShape& shape, const FlashBlocks& given,
                                        int64_t processors);

}  // namespace common
