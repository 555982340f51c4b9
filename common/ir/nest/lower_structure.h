// Rewrites structured nodes (softmax, norm, contraction) into the primitives that define them.
#pragma once

#include "common/ir/hlir/graph.h"

namespace common {

// Nodes that a template computes as they are, beside kSoftmax and kNorm, which none does.
enum class Kept : uint8_t { kNone, kContractions, kTransforms };
// An equal graph without kSoftmax, kNorm, kContract and kFourier nodes, but for those kept.
Graph lower_structure(const Graph& graph, Kept kept);

}  // namespace common
