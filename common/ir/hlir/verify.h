// Checks that a graph keeps HLIR's rules; everything that comes from outside passes through here.
#pragma once

#include "common/ir/hlir/graph.h"

namespace common {

// Operand order, arity, dtypes, shapes, views and attributes of every node, and of loop bodies.
// kInvalidInput with the node's number and what is wrong.
Status verify(const Graph& graph);

// A kCheck's input (a kUser, or -1) and limit (over the first `symbols` symbols, not negative), and
// the type of its value. kInvalidInput says what is wrong.
Status verify_check(const GraphOutput& output, const std::vector<GraphInput>& inputs,
                    size_t symbols, DType dtype, const Shape& shape);

// The type a node must have, given its operands; shared by the builder and the verifier.
Result<TensorType> infer_type(const Graph& graph, const Node& node);

}  // namespace common
