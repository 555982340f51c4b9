// Which reductions of a body, as one lowering emitted them, can share a pass.
#pragma once

#include <map>
#include <vector>

#include "common/lowering/body/body_emitter.h"

namespace common {

// For ReductionChoices::fused: reductions that were emitted at one place and can be fused
// (reduction_fusion.h).
std::map<NodeId, std::vector<NodeId>> independent_reductions(
    const Graph& body, const std::vector<EmittedReduction>& emitted);

}  // namespace common
