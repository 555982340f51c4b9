#include "common/ir/llir/fallback_form.h"

#include <algorithm>

namespace common {
namespace {

bool is_unary(const Node& node, UnaryOp op) {
  return node.op == Op::kUnary && attr<UnaryAttr>(node).op == op;
}

// isnan(value) or isinf(value)
bool is_overflow_test(const Graph& graph, const Node& node, NodeId value) {
  if (node.op != Op::kBinary || attr<BinaryAttr>(node).op != BinaryOp::kOr) return false;
  const Node& first = graph.node(node.operands[0]);
  const Node& second = graph.node(node.operands[1]);
  return is_unary(first, UnaryOp::kIsNan) && is_unary(second, UnaryOp::kIsInf) &&
         first.operands[0] == value && second.operands[0] == value;
}

}  // namespace

std::optional<FallbackForm> fallback_form(const Graph& graph, NodeId contraction) {
  for (const GraphOutput& output : graph.outputs) {
    if (output.node == contraction) return std::nullopt;
  }
  std::optional<FallbackForm> form;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (std::find(node.operands.begin(), node.operands.end(), contraction) == node.operands.end()) {
      continue;
    }
    if (form || node.op != Op::kSelect || node.operands[1] != contraction ||
        !is_overflow_test(graph, graph.node(node.operands[0]), node.operands[2])) {
      return std::nullopt;
    }
    form = FallbackForm{node.operands[0], static_cast<NodeId>(id)};
  }
  return form;
}

}  // namespace common
