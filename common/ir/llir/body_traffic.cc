#include "common/ir/llir/body_traffic.h"

#include <algorithm>

#include "common/ir/hlir/sizes.h"

namespace common {

std::vector<double> bytes_read(const Graph& body, const std::vector<int64_t>& symbols) {
  std::vector<double> gathered(body.inputs.size(), 0);
  std::vector<char> is_whole(body.inputs.size(), 0);
  auto input_of = [&](NodeId id) -> int {
    const Node& node = body.node(id);
    return node.op == Op::kInput ? attr<InputAttr>(node).position : -1;
  };
  for (const Node& node : body.nodes) {
    for (size_t k = 0; k < node.operands.size(); ++k) {
      int position = input_of(node.operands[k]);
      if (position < 0) continue;
      auto input = static_cast<size_t>(position);
      if (node.op == Op::kGather && k == 0) {
        gathered[input] += count_bytes(body.inputs[input].dtype, node.shape, symbols);
      } else if (node.op != Op::kScatter || k != 0) {
        is_whole[input] = 1;
      }
    }
  }
  for (const GraphOutput& output : body.outputs) {
    int position = input_of(output.node);
    if (position >= 0) is_whole[static_cast<size_t>(position)] = 1;
  }
  std::vector<double> bytes;
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    double all = count_bytes(body.inputs[k].dtype, body.inputs[k].shape, symbols);
    bytes.push_back(is_whole[k] != 0 ? all : std::min(all, gathered[k]));
  }
  return bytes;
}

std::vector<double> bytes_written(const Graph& body, const std::vector<int64_t>& symbols) {
  std::vector<double> bytes;
  for (const GraphOutput& output : body.outputs) {
    const Node& node = body.node(output.node);
    const Node& moved = node.op == Op::kScatter ? body.node(node.operands[1]) : node;
    bytes.push_back(count_bytes(node.dtype, moved.shape, symbols));
  }
  return bytes;
}

}  // namespace common
