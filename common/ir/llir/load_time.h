// What depends on weights and constants alone: it is computed once, when weights are bound, and
// costs nothing in a run. This follows from the data flow, so no program says it itself.
#pragma once

#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/ir/llir/llir.h"

namespace common {

// One flag per call: every buffer that it reads is a weight or written by such a call, no size that
// it needs is symbolic, and it writes no output of the graph.
std::vector<char> load_time_calls(const std::vector<GraphInput>& inputs,
                                  const std::vector<GraphOutput>& outputs,
                                  const std::vector<Buffer>& buffers,
                                  const std::vector<Call>& calls);
// Of a Program or a Plan.
template <class P>
std::vector<char> load_time_calls(const P& program) {
  return load_time_calls(program.inputs, program.outputs, program.buffers, program.calls);
}

// Whether the node alone, whatever its operands, needs a symbolic size.
bool needs_symbols(const Node& node);
// Of a node whose operands all are load-time values: whether it is one too. Inputs are when they
// are weights. A loop or its result is none: ask for its body.
bool keeps_load_time(const Node& node, const std::vector<GraphInput>& inputs);
// One flag per node of a loop-free graph.
std::vector<char> load_time_nodes(const Graph& graph);

}  // namespace common
