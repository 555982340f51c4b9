#include "coordinator/rules/matching/rewriter.h"

#include "common/ir/hlir/builder.h"

namespace coordinator {

using common::Node;
using common::Op;

const Node& Rewriter::type(ClassId cls) const {
  const Node* found = nullptr;
  graph_.for_each_node(graph_.find(cls), [&](NodeId n) {
    if (!found) found = &heads_.node(graph_.head(n));
  });
  LFARM_CHECK(found != nullptr, "a class without nodes");
  return *found;
}

template <class F>
std::optional<Rewriter::Found> Rewriter::find_if(ClassId cls, F&& accepts) const {
  std::optional<Found> found;
  graph_.for_each_node(graph_.find(cls), [&](NodeId n) {
    const Node& node = heads_.node(graph_.head(n));
    if (found || !accepts(node) || lowering(n) == Lowering::kCopy) return;
    auto children = graph_.children(n);
    found = Found{&node, {children.begin(), children.end()}};
  });
  return found;
}

std::optional<Rewriter::Found> Rewriter::find(ClassId cls, Op op) const {
  return find_if(cls, [op](const Node& node) { return node.op == op; });
}

std::optional<Rewriter::Found> Rewriter::find_unary(ClassId cls, common::UnaryOp op) const {
  return find_if(cls, [op](const Node& node) {
    return node.op == Op::kUnary && common::attr<common::UnaryAttr>(node).op == op;
  });
}

std::optional<Rewriter::Found> Rewriter::find_binary(ClassId cls, common::BinaryOp op) const {
  return find_if(cls, [op](const Node& node) {
    return node.op == Op::kBinary && common::attr<common::BinaryAttr>(node).op == op;
  });
}

std::vector<Rewriter::Found> Rewriter::find_all(ClassId cls, Op op) const {
  std::vector<Found> all;
  graph_.for_each_node(graph_.find(cls), [&](NodeId n) {
    const Node& node = heads_.node(graph_.head(n));
    if (node.op != op || lowering(n) == Lowering::kCopy) return;
    auto children = graph_.children(n);
    all.push_back(Found{&node, {children.begin(), children.end()}});
  });
  return all;
}

std::optional<double> Rewriter::uniform_value(ClassId cls) const {
  for (const Found& view : find_all(cls, Op::kView)) {
    if (!common::attr<common::ViewAttr>(*view.node).view.valid.empty()) continue;
    if (auto constant = find(view.operands[0], Op::kConstant)) {
      return common::uniform_constant(*constant->node);
    }
  }
  if (auto constant = find(cls, Op::kConstant)) return common::uniform_constant(*constant->node);
  return std::nullopt;
}

ClassId Rewriter::add(const Node& node, const std::vector<ClassId>& operands, Lowering lowering) {
  std::vector<ClassId> canonical;
  canonical.reserve(operands.size());
  for (ClassId operand : operands) canonical.push_back(graph_.find(operand));
  return graph_.add(heads_.intern(node, lowering), canonical);
}

ClassId Rewriter::unary(common::UnaryOp op, ClassId x) {
  return add({Op::kUnary, dtype(x), shape(x), {}, common::UnaryAttr{op}}, {x});
}

ClassId Rewriter::binary(common::BinaryOp op, ClassId a, ClassId b) {
  common::DType result = common::is_comparison(op) ? common::DType::kBool : dtype(a);
  return add({Op::kBinary, result, shape(a), {}, common::BinaryAttr{op}}, {a, b});
}

ClassId Rewriter::select(ClassId condition, ClassId a, ClassId b) {
  return add({Op::kSelect, dtype(a), shape(a), {}, {}}, {condition, a, b});
}

ClassId Rewriter::cast(ClassId x, common::DType to) {
  if (dtype(x) == to) return x;
  return add({Op::kCast, to, shape(x), {}, {}}, {x});
}

ClassId Rewriter::view(ClassId x, const common::View& view) {
  if (common::view_is_identity(view, shape(x))) return x;
  return add({Op::kView, dtype(x), view.shape, {}, common::ViewAttr{view}}, {x});
}

ClassId Rewriter::scalar(common::DType dtype, double value, const common::Shape& shape) {
  common::GraphBuilder builder;
  common::NodeId node = builder.scalar(dtype, value);
  ClassId scalar_class = add(builder.node(node), {});
  if (shape.empty()) return scalar_class;
  return view(scalar_class, *common::view_expand({}, shape));
}

}  // namespace coordinator
