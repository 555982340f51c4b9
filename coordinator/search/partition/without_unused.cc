#include "coordinator/search/partition/without_unused.h"

#include <utility>

namespace coordinator {

Selected without_unused(Selected selected) {
  const std::vector<char> used = common::live_nodes(selected.graph);
  Selected result;
  result.graph.symbols = std::move(selected.graph.symbols);
  result.graph.inputs = std::move(selected.graph.inputs);
  result.graph.outputs = std::move(selected.graph.outputs);
  auto at = [](common::NodeId id) { return static_cast<size_t>(id); };
  std::vector<common::NodeId> kept(used.size(), -1);
  for (size_t i = 0; i < used.size(); ++i) {
    common::Node& node = selected.graph.nodes[i];
    if (used[i] == 0 && node.op != common::Op::kInput) continue;
    for (common::NodeId& operand : node.operands) operand = kept[at(operand)];
    kept[i] =
        result.add(std::move(node), selected.lowering[i], selected.gene[i], selected.choice[i]);
  }
  for (auto& output : result.graph.outputs) output.node = kept[at(output.node)];
  return result;
}

}  // namespace coordinator
