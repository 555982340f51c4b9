// Replaces a chain of isomorphic blocks by one loop.
#pragma once

#include "common/ir/roll/roll_chain.h"

namespace common {

// The graph with the chain's blocks folded into a kLoop node; the loop's body is rolled in turn.
Graph fold(const Graph& graph, const Chain& chain);

}  // namespace common
