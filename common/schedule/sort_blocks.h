// How a block of a GPU's threads sorts a line, and what that takes: for the tiling, which says
// how to sort, and for the search, which predicts the time.
#pragma once

#include <cstdint>

#include "common/cost/gpu_time.h"
#include "common/ir/hlir/dtype.h"

namespace common {

enum class SortMethod {
  kRank,     // each item counts those that come before it: short lines
  kNetwork,  // Batcher's bitonic network, in registers and shared memory
  kMemory,   // the same, of chunks of a line that shared memory does not hold
  kCount,    // keys of 8 bits, of which a warp counts each; longer lines than kRank takes
};

struct SortBlocks {
  SortMethod method = SortMethod::kRank;
  int64_t places = 0;      // items that are sorted at once, with padding
  int64_t threads = 0;     // of a block, which sorts one line
  int64_t item_bytes = 0;  // 8 where 32 bits hold a key and others its position, else 16
  // Threads that compute a line's keys together. Warps of kRank compute all of them each, and need
  // not meet for a sum over the line.
  int64_t key_threads() const;
  // kRank: neighbouring threads that share an item's comparisons.
  int64_t parts() const { return threads / places; }
  // kNetwork, kMemory: items that a thread holds.
  int64_t each() const { return places / threads; }
};

// Of lines of at most `longest` keys.
SortBlocks sort_blocks(DType key, int64_t longest);

// Of one launch that sorts `lines` of `length` items.
GpuKernelFacts sort_facts(const SortBlocks& blocks, double lines, double length);

}  // namespace common
