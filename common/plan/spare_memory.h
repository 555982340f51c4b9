// Places for temporaries in memory that a run has anyway: in outputs before they are written, and
// in inputs that the caller has donated after their last use.
//
//   calls            0  1  2  3       a temporary of calls 0 to 1 lies in the output, one of calls
//   donated input    r  r  .  .       2 to 3 in the input, and neither needs an arena
//   output           .  .  w  w
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/plan/arena.h"

namespace common {

struct SparePlaces {
  std::vector<int> spare;       // one per block: the spare block that it lies in, -1: none
  std::vector<size_t> offsets;  // within it
};
// Places blocks, the largest first, in spare blocks, each in the smallest gap that holds it. A
// spare block is free from its first to its last call. What finds no place needs an arena.
SparePlaces place_in_spare(std::span<const LiveBlock> blocks, std::span<const LiveBlock> spare,
                           size_t alignment);

}  // namespace common
