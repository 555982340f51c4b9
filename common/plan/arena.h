// Where a run's temporaries live: lifetimes from the order of the calls, offsets for given sizes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/plan/plan.h"

namespace common {

// Which memory each buffer of a plan uses, and for how long. Independent of sizes.
struct Lifetimes {
  // storage[b] is the buffer whose memory buffer b uses: b itself, or another one when calls that
  // work in place chain them. Chains end at a temporary, an output, or the input of a state whose
  // new content is written over the old one.
  std::vector<int> storage;
  // The first and last call that touches the memory, for buffers that are temporaries and their
  // own storage; else -1.
  std::vector<int> first, last;
  // One flag per call: it runs once, when weights are bound, before all others (load_time.h).
  std::vector<char> at_load;
  // One flag per buffer with a lifetime: calls at load write it. Their memory is never that of
  // other calls' results.
  std::vector<char> made_at_load;
  // And of these, what is read in runs and stays between them.
  std::vector<char> kept;
};
// The plan has been verified.
Lifetimes buffer_lifetimes(const Plan& plan);

struct LiveBlock {
  size_t bytes = 0;
  int first = 0, last = 0;  // inclusive
};
struct ArenaLayout {
  std::vector<size_t> offsets;  // one per block
  size_t bytes = 0;             // the arena's size
  size_t bytes_live_max = 0;    // most bytes live at once: no layout is smaller
};
// Offsets at which blocks that are live together don't overlap, each a multiple of `alignment` (a
// power of two). Greedy best fit in several orders, of which the smallest layout is taken.
ArenaLayout plan_arena(std::span<const LiveBlock> blocks, size_t alignment);

}  // namespace common
