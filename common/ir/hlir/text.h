// The text form of graphs: one node a line, readable, and parsed back to an equal graph.
#pragma once

#include <string>
#include <string_view>

#include "common/ir/hlir/graph.h"

namespace common {

// Example of a line: "%3 = binary.add f32[2, s0] %1 %2". Loop bodies are indented blocks that
// follow their loop: "%9 = loop x12 carried=1 invariant=2 per_iteration=4 outputs=0 ... { ... }".
std::string print(const Graph& graph);
// kInvalidInput with the line's number. The result is verified.
Result<Graph> parse_graph(std::string_view text);
// One node's operation and attributes without its operands, such as "reduce.sum axes=[1]".
// Equal operations have equal texts.
std::string describe(const Node& node);

}  // namespace common
