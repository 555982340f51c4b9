#include "common/schedule/reductions/walked_reductions.h"

#include <algorithm>
#include <vector>

#include "common/ir/expr/index.h"
#include "common/ir/nest/loop_nest.h"

namespace common {

std::set<NodeId> sums_of_reductions(const Graph& body) {
  std::set<NodeId> sums;
  std::vector<char> is_reducing(body.nodes.size(), 0);
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    const Node& node = body.nodes[id];
    bool within = std::any_of(node.operands.begin(), node.operands.end(),
                              [&](NodeId operand) { return is_reducing[at(operand)] != 0; });
    is_reducing[id] = within || node.op == Op::kReduce;
    auto number = static_cast<NodeId>(id);
    if (within && node.op == Op::kReduce && walked_steps(body, number)) sums.insert(number);
  }
  return sums;
}

std::set<NodeId> window_reductions(const Graph& body) {
  std::set<NodeId> windows;
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    auto number = static_cast<NodeId>(id);
    if (body.nodes[id].op != Op::kReduce || !walked_steps(body, number)) continue;
    NodeId operand = body.nodes[id].operands[0];
    while (body.node(operand).op == Op::kCast) operand = body.node(operand).operands[0];
    if (body.node(operand).op == Op::kView) windows.insert(number);
  }
  return windows;
}

}  // namespace common
