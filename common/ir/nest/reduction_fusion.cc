#include "common/ir/nest/reduction_fusion.h"

#include <algorithm>

namespace common {
namespace {

bool depends(const Graph& body, NodeId node, NodeId on) {
  std::vector<char> reached(body.nodes.size(), 0);
  reached[static_cast<size_t>(on)] = 1;
  for (auto id = static_cast<size_t>(on) + 1; id <= static_cast<size_t>(node); ++id) {
    for (NodeId operand : body.nodes[id].operands) {
      if (reached[static_cast<size_t>(operand)] != 0) reached[id] = 1;
    }
  }
  return reached[static_cast<size_t>(node)] != 0;
}

bool gives_position(const Node& node) {
  ReduceOp op = attr<ReduceAttr>(node).op;
  return op == ReduceOp::kArgmax || op == ReduceOp::kArgmin;
}

}  // namespace

bool can_fuse(const Graph& body, const std::vector<NodeId>& group, NodeId other) {
  const Node& first = body.node(group[0]);
  const Node& second = body.node(other);
  if (gives_position(first) || gives_position(second) ||
      attr<ReduceAttr>(first).axes != attr<ReduceAttr>(second).axes ||
      body.node(first.operands[0]).shape != body.node(second.operands[0]).shape) {
    return false;
  }
  return std::none_of(group.begin(), group.end(), [&](NodeId id) {
    return id == other || depends(body, other, id) || depends(body, id, other);
  });
}

bool has_adjacent_axes(const ReduceAttr& reduction) {
  const std::vector<int>& axes = reduction.axes;
  return axes.size() > 1 && axes.back() - axes.front() + 1 == static_cast<int>(axes.size());
}

}  // namespace common
