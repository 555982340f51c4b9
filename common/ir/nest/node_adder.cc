#include "common/ir/nest/node_adder.h"

#include <cstring>
#include <utility>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/indices.h"

namespace common {

NodeId NodeAdder::add(Node node) {
  graph_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph_.nodes.size()) - 1;
}

NodeId NodeAdder::view(NodeId x, View view) {
  const DType dtype = graph_.node(x).dtype;
  Shape shape = view.shape;
  return add({Op::kView, dtype, std::move(shape), {x}, ViewAttr{std::move(view)}});
}

NodeId NodeAdder::cast(NodeId x, DType dtype) {
  if (graph_.node(x).dtype == dtype) return x;
  return add({Op::kCast, dtype, shape(x), {x}, {}});
}

NodeId NodeAdder::unary(UnaryOp op, NodeId x) {
  const bool is_test = op == UnaryOp::kIsNan || op == UnaryOp::kIsInf;
  const DType dtype = is_test ? DType::kBool : graph_.node(x).dtype;
  return add({Op::kUnary, dtype, shape(x), {x}, UnaryAttr{op}});
}

NodeId NodeAdder::binary(BinaryOp op, NodeId a, NodeId b) {
  const DType dtype = is_comparison(op) ? DType::kBool : graph_.node(a).dtype;
  return add({Op::kBinary, dtype, shape(a), {a, b}, BinaryAttr{op}});
}

NodeId NodeAdder::select(NodeId condition, NodeId a, NodeId b) {
  return add({Op::kSelect, graph_.node(a).dtype, shape(a), {condition, a, b}, {}});
}

NodeId NodeAdder::reduce(ReduceOp op, NodeId x, std::vector<int> axes) {
  Shape kept = shape(x);
  for (size_t k = axes.size(); k > 0; --k) kept.erase(kept.begin() + axes[k - 1]);
  const DType dtype = graph_.node(x).dtype;
  return add({Op::kReduce, dtype, std::move(kept), {x}, ReduceAttr{op, std::move(axes)}});
}

NodeId NodeAdder::scan(ScanOp op, NodeId x, int axis) {
  return add({Op::kScan, graph_.node(x).dtype, shape(x), {x}, ScanAttr{op, axis}});
}

NodeId NodeAdder::gather(NodeId data, int axis, NodeId index, const std::vector<Expr>& others) {
  GatherAttr gather;
  size_t next = 0;
  for (int d = 0; d < static_cast<int>(graph_.node(data).shape.size()); ++d) {
    gather.coordinates.push_back(d == axis ? Coordinate{0, {}} : Coordinate{-1, others[next++]});
  }
  const DType dtype = graph_.node(data).dtype;
  return add({Op::kGather, dtype, shape(index), {data, index}, std::move(gather)});
}

NodeId NodeAdder::iota(const Expr& length) {
  return add({Op::kIota, DType::kInt64, {length}, {}, {}});
}

NodeId NodeAdder::flat_positions(const Shape& shape) {
  Indices indices;
  for (size_t d = 0; d < shape.size(); ++d) indices.push_back(Expr::index(static_cast<int>(d)));
  return view(iota(element_count(shape)), {shape, {linear_position(indices, shape)}, {}, 0});
}

NodeId NodeAdder::full(DType dtype, const Shape& shape, double value) {
  auto bytes = std::make_shared<Bytes>(sizeof value);
  std::memcpy(bytes->data(), &value, sizeof value);
  const NodeId constant =
      add({Op::kConstant, DType::kFloat64, {}, {}, ConstantAttr{std::move(bytes)}});
  return view(cast(constant, dtype), {shape, {}, {}, 0});
}

NodeId NodeAdder::widened(NodeId x, const Shape& shape, const std::vector<int>& added) {
  View wide{shape, {}, {}, 0};
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (!contains(added, d)) wide.index.push_back(Expr::index(d));
  }
  return view(x, std::move(wide));
}

}  // namespace common
