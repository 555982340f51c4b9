#include "common/lowering/text/position_choice.h"

#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/builder.h"

namespace common {
namespace {

// A value at indices, below views that are valid everywhere.
struct Element {
  const Node* node;
  Indices indices;
};

Element below_views(const Graph& graph, NodeId id, Indices indices) {
  const Node* node = &graph.node(id);
  while (node->op == Op::kView && attr<ViewAttr>(*node).view.valid.empty()) {
    Indices inner;
    for (const Expr& e : attr<ViewAttr>(*node).view.index) {
      inner.push_back(with_indices(e, indices));
    }
    indices = std::move(inner);
    node = &graph.node(node->operands[0]);
  }
  return {node, std::move(indices)};
}

}  // namespace

std::optional<ShiftedIndex> shifted_index(const Expr& e) {
  const int64_t shift = e.sum_constant();
  auto var = (e - Expr(shift)).as_var();
  if (!var || var->kind != Var::Kind::kIndex) return std::nullopt;
  return ShiftedIndex{var->id, shift};
}

std::optional<PositionTest> position_test(const Graph& graph, NodeId condition,
                                          const Indices& indices) {
  auto [test, at] = below_views(graph, condition, indices);
  if (test->op != Op::kBinary) return std::nullopt;
  const BinaryOp op = attr<BinaryAttr>(*test).op;
  if (op != BinaryOp::kLess && op != BinaryOp::kLessEqual) return std::nullopt;
  auto [position, place] = below_views(graph, test->operands[0], at);
  auto [bound, unused] = below_views(graph, test->operands[1], at);
  if (position->op != Op::kIota || position->dtype != DType::kInt64) return std::nullopt;
  if (bound->op != Op::kConstant) return std::nullopt;
  auto value = uniform_constant(*bound);
  auto index = shifted_index(place[0]);
  if (!value || !index) return std::nullopt;
  const int64_t least = static_cast<int64_t>(*value) + (op == BinaryOp::kLessEqual ? 1 : 0);
  return PositionTest{index->index, least - index->by};
}

bool asks_position(const Graph& graph, NodeId value) {
  constexpr int kStepsMax = 8;
  NodeId id = value;
  for (int step = 0; step < kStepsMax; ++step) {
    const Node& node = graph.node(id);
    if (node.op == Op::kSelect) return true;
    if (node.op == Op::kView && !attr<ViewAttr>(node).view.valid.empty()) return true;
    if (node.op != Op::kView && node.op != Op::kCast && node.op != Op::kUnary) return false;
    id = node.operands[0];
  }
  return false;
}

}  // namespace common
