#include "worker/codegen/body/reduction_fusion.h"

#include <algorithm>

namespace worker {

using common::Graph;
using common::Node;
using common::NodeId;
using common::ReduceAttr;

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

bool same_loops(const Graph& body, const EmittedReduction& a, const EmittedReduction& b) {
  const Node& first = body.node(a.id);
  const Node& second = body.node(b.id);
  return a.id != b.id && a.level == b.level && a.indices == b.indices &&
         attr<ReduceAttr>(first).axes == attr<ReduceAttr>(second).axes &&
         body.node(first.operands[0]).shape == body.node(second.operands[0]).shape;
}

}  // namespace

std::map<NodeId, std::vector<NodeId>> independent_reductions(
    const Graph& body, const std::vector<EmittedReduction>& emitted) {
  std::map<NodeId, std::vector<NodeId>> fused;
  std::vector<char> taken(emitted.size(), 0);
  for (size_t i = 0; i < emitted.size(); ++i) {
    if (taken[i] != 0) continue;
    std::vector<NodeId> group = {emitted[i].id};
    for (size_t j = i + 1; j < emitted.size(); ++j) {
      if (taken[j] != 0 || !same_loops(body, emitted[i], emitted[j])) continue;
      NodeId next = emitted[j].id;
      bool independent = std::none_of(group.begin(), group.end(), [&](NodeId other) {
        return depends(body, next, other) || depends(body, other, next);
      });
      if (!independent) continue;
      group.push_back(next);
      taken[j] = 1;
    }
    if (group.size() > 1) fused[group[0]].assign(group.begin() + 1, group.end());
  }
  return fused;
}

}  // namespace worker
