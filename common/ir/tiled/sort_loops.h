// The loops by which a block of threads sorts a line.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "common/base/result.h"
#include "common/ir/tiled/looped_nodes.h"

namespace common {

// Each item's rank is the number of those before it, which `parts` threads count together, two
// items at a time.
struct RankLoops {
  int64_t places = 0;  // of items, with padding: a multiple of 2 * parts
  int64_t parts = 1;
};

// Batcher's bitonic network: runs of 2, 4, ... items are merged by comparisons of places that lie a
// power of two apart. Items of a chunk meet within a block, those of different chunks in memory.
struct NetworkLoops {
  int64_t chunk = 0;      // places, a power of two
  bool is_whole = false;  // one chunk has the line; else there are as many as hold it
};

// Each warp counts the keys of its part of the line; sums of the counters are its items' ranks.
struct CountLoops {
  int64_t threads = 0;   // of which those beyond the last whole warp count nothing
  int64_t counters = 0;  // of all keys of 8 bits, for each warp
};

struct SortLoops {
  std::variant<RankLoops, NetworkLoops, CountLoops> method;
  bool packed = false;  // of an item's key, 32 bits are there
};

std::string print(const SortLoops& loops);

// `sort` is a kSort of `body`, whose lines are as long as symbols at their greatest allow where the
// network's length depends on that. kInvalidInput for sizes that are no such loops.
Result<LoopedNodes> looped_sort(Graph body, NodeId sort, const SortLoops& loops);

}  // namespace common
