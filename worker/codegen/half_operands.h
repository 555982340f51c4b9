// Finds the half-precision values behind a contraction's operands, which tensor cores multiply as
// they are.
#pragma once

#include <optional>

#include "common/ir/graph.h"

namespace worker {

// The same body with the contraction's operands of one half type, where they are such values cast
// to float32 and then moved; empty where they are not.
std::optional<common::Graph> with_half_operands(const common::Graph& body,
                                                common::NodeId contraction);

}  // namespace worker
