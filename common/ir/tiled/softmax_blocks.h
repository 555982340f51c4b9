// A softmax computed in blocks, as attention does that never has a whole row of scores at once: for
// the reference interpreter, as product_loops.h.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

struct RewrittenBody {
  Graph body;
  std::vector<NodeId> node_of;  // what each node of the body before became
};

// The body in which each of `parts` takes its share of the row in blocks of `keys`: of each block
// the greatest score and the sum of the exponentials below it, after M. Milakov and N. Gimelshein,
// "Online normalizer calculation for softmax" (2018), which are merged for the row. `softmax` is a
// kSoftmax of probabilities, not of their logarithms.
RewrittenBody with_softmax_in_blocks(const Graph& body, NodeId softmax, int64_t keys,
                                     const Expr& parts);

}  // namespace common
