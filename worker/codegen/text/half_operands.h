// Finds the half-precision values behind a contraction's operands, which take half the
// memory traffic and which tensor cores multiply as they are.
#pragma once

#include "common/ir/hlir/graph.h"

namespace worker {

// The same body with the contraction reading half-precision values where its operands are such,
// cast to float32 and then moved.
common::Graph with_half_operands(const common::Graph& body, common::NodeId contraction);

}  // namespace worker
