// Rewrites structured nodes (softmax, norm, contraction) into the primitives that define them.
#pragma once

#include "common/ir/graph.h"

namespace worker {

// An equal graph without kSoftmax and kNorm nodes, and without kContract nodes unless
// `keep_contractions`.
common::Graph lower_structure(const common::Graph& graph, bool keep_contractions);

}  // namespace worker
