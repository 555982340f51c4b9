// Rewrites structured nodes (softmax, norm, contraction) into the primitives that define them.
#pragma once

#include "common/ir/hlir/graph.h"

namespace worker {

// Nodes that a template computes as they are, beside kSoftmax and kNorm, which none does.
enum class Kept : uint8_t { kNone, kContractions, kTransforms };
// An equal graph without kSoftmax, kNorm, kContract and kFourier nodes, but for those kept.
common::Graph lower_structure(const common::Graph& graph, Kept kept);

}  // namespace worker
