// Takes into the blocks of a chain what hangs on them and is read by no later block: results that
// only outputs of the graph need.
//
//   x1 = layer(x0, w0)   s0 = sum(x0 * g0)    s0 and s1 are outputs. A walk back from the blocks'
//   x2 = layer(x1, w1)   s1 = sum(x1 * g1)    ends, x1 and x2, finds neither.
//
// Gradients of weights in backward graphs are such results. Outside of the loop they are as many
// different kernels as there are layers, and what they read is kept until the loop ends.
#pragma once

#include "common/ir/roll/roll_chain.h"

namespace common {

// The chain with such results as places of its blocks; the chain as it is where it has none.
Chain with_side_results(const Graph& graph, Chain chain);

}  // namespace common
