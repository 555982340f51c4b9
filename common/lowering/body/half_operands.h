// Finds the half-precision values behind a contraction's operands, which take half the
// memory traffic and which tensor cores multiply as they are.
#pragma once

#include "common/ir/hlir/graph.h"

namespace common {

// The same body with the contraction reading half-precision values where its operands are such,
// cast to float32 and then moved.
Graph with_half_operands(const Graph& body, NodeId contraction);

// The same body with one operand of the contraction as it was before it was rounded to a half type,
// float32, seen through views and choices. The operand stays where it was nothing of that kind.
Graph with_unrounded_operand(const Graph& body, NodeId contraction, int operand);

}  // namespace common
