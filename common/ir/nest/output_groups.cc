#include "common/ir/nest/output_groups.h"

#include <algorithm>

namespace common {

const Shape& looped_shape(const Graph& body, size_t output) {
  const Node& node = body.node(body.outputs[output].node);
  return node.op == Op::kScatter ? body.node(node.operands[1]).shape : node.shape;
}

std::vector<OutputGroup> group_outputs(const Graph& body) {
  std::vector<OutputGroup> groups;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const Shape& shape = looped_shape(body, k);
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const OutputGroup& g) { return g.shape == shape; });
    if (it == groups.end()) it = groups.insert(groups.end(), {shape, {}});
    it->outputs.push_back(k);
  }
  return groups;
}

size_t shared_axes(const std::vector<OutputGroup>& groups) {
  size_t shared = groups[0].shape.size();
  for (const OutputGroup& g : groups) {
    size_t same = 0;
    while (same < shared && same < g.shape.size() && g.shape[same] == groups[0].shape[same]) {
      ++same;
    }
    shared = same;
  }
  return shared;
}

}  // namespace common
