// Which reductions of a body may share one pass.
#pragma once

#include <map>
#include <vector>

#include "worker/codegen/body/body_emitter.h"

namespace worker {

// For EmitterChoices::fused: reductions that were emitted at one place, over equal axes of equal
// shapes, none of which depends on another.
std::map<common::NodeId, std::vector<common::NodeId>> independent_reductions(
    const common::Graph& body, const std::vector<EmittedReduction>& emitted);

}  // namespace worker
