#include "common/ir/tiled/looped_nodes.h"

#include <algorithm>
#include <utility>

#include "common/ir/expr/index.h"
#include "common/ir/nest/node_adder.h"

namespace common {

LoopedNodes looped_nodes(Graph body, std::vector<NodeId> nodes, Graph loops,
                         const std::vector<VisitedNode>& visited, std::string text) {
  loops.outputs.clear();
  for (const VisitedNode& node : visited) {
    for (NodeId id : {node.values, node.places}) {
      loops.outputs.push_back({OutputKind::kUser, id, -1});
    }
  }
  return {std::move(body), std::move(nodes), without_dead_nodes(loops), std::move(text)};
}

Graph after_loops(const LoopedNodes& looped) {
  const Graph& body = looped.body;
  Graph rest;
  rest.symbols = body.symbols;
  rest.inputs = body.inputs;
  for (size_t k = 0; k < looped.nodes.size(); ++k) {
    const DType dtype = looped.loops.node(looped.loops.outputs[2 * k].node).dtype;
    rest.inputs.push_back({InputKind::kUser, dtype, body.node(looped.nodes[k]).shape, ""});
  }
  NodeAdder nodes(rest);
  std::vector<NodeId> renamed;
  for (NodeId id = 0; id < static_cast<NodeId>(body.nodes.size()); ++id) {
    Node node = body.node(id);
    const auto given = std::find(looped.nodes.begin(), looped.nodes.end(), id);
    if (given != looped.nodes.end()) {
      const auto input = static_cast<int>(body.inputs.size() + at(given - looped.nodes.begin()));
      const DType dtype = rest.inputs[at(input)].dtype;
      const NodeId value = nodes.add({Op::kInput, dtype, node.shape, {}, InputAttr{input}});
      renamed.push_back(nodes.cast(value, node.dtype));
      continue;
    }
    for (NodeId& operand : node.operands) operand = renamed[at(operand)];
    renamed.push_back(nodes.add(std::move(node)));
  }
  for (const GraphOutput& output : body.outputs) {
    rest.outputs.push_back(output);
    rest.outputs.back().node = renamed[at(output.node)];
  }
  return rest;
}

}  // namespace common
