#include "common/ir/nest/lower_structure.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"

namespace common {

namespace {

// exp(x - m) / sum(exp(x - m)), or (x - m) - log(sum(exp(x - m))), with m the row's maximum.
NodeId lower_softmax(GraphBuilder& b, NodeId x, const SoftmaxAttr& a) {
  NodeId shifted = b.binary(BinaryOp::kSub, x, b.reduce(ReduceOp::kMax, x, {a.axis}, true));
  NodeId weights = b.unary(UnaryOp::kExp, shifted);
  NodeId total = b.reduce(ReduceOp::kSum, weights, {a.axis}, true);
  if (a.log) return b.binary(BinaryOp::kSub, shifted, b.unary(UnaryOp::kLog, total));
  return b.binary(BinaryOp::kMul, weights, b.unary(UnaryOp::kRecip, total));
}

NodeId lower_norm(GraphBuilder& b, NodeId x, const NormAttr& a) {
  std::vector<int> axes;
  Expr count = 1;
  for (int k = b.rank(x) - a.axes; k < b.rank(x); ++k) {
    axes.push_back(k);
    count *= b.shape(x)[at(k)];
  }
  DType dtype = b.dtype(x);
  NodeId scale = b.unary(UnaryOp::kRecip, b.size_scalar(dtype, count));
  if (count.is_constant()) scale = b.scalar(dtype, 1.0 / static_cast<double>(count.constant()));
  auto mean = [&](NodeId value) {
    return b.binary(BinaryOp::kMul, b.reduce(ReduceOp::kSum, value, axes, true), scale);
  };
  NodeId centred = x;
  NodeId variance;
  if (a.centred) {
    // The mean rounds; what that left over is the mean of the differences, which are small.
    NodeId rough = b.binary(BinaryOp::kSub, x, mean(x));
    NodeId rest = mean(rough);
    centred = b.binary(BinaryOp::kSub, rough, rest);
    variance = b.binary(BinaryOp::kSub, mean(b.binary(BinaryOp::kMul, rough, rough)),
                        b.binary(BinaryOp::kMul, rest, rest));
  } else {
    variance = mean(b.binary(BinaryOp::kMul, x, x));
  }
  NodeId inverse =
      b.unary(UnaryOp::kRsqrt, b.binary(BinaryOp::kAdd, variance, b.scalar(dtype, a.epsilon)));
  return b.binary(BinaryOp::kMul, centred, inverse);
}

// The operand seen over the output's labels, then the summed labels.
NodeId spread(GraphBuilder& b, NodeId x, const std::vector<int>& labels,
              const std::vector<int>& order, const Shape& shape) {
  View view;
  view.shape = shape;
  for (int label : labels) {
    auto position = std::find(order.begin(), order.end(), label) - order.begin();
    view.index.push_back(Expr::index(static_cast<int>(position)));
  }
  return b.view(x, view);
}

NodeId lower_contract(GraphBuilder& b, NodeId left, NodeId right, const ContractAttr& c,
                      DType dtype) {
  std::vector<int> order = c.out;
  std::map<int, Expr> sizes;
  for (size_t k = 0; k < c.a.size(); ++k) sizes[c.a[k]] = b.shape(left)[k];
  for (size_t k = 0; k < c.b.size(); ++k) sizes[c.b[k]] = b.shape(right)[k];
  std::vector<int> axes;
  for (const auto* labels : {&c.a, &c.b}) {
    for (int label : *labels) {
      if (contains(order, label)) continue;
      axes.push_back(static_cast<int>(order.size()));
      order.push_back(label);
    }
  }
  Shape shape;
  for (int label : order) shape.push_back(sizes[label]);
  NodeId x = b.cast(spread(b, left, c.a, order, shape), dtype);
  NodeId y = b.cast(spread(b, right, c.b, order, shape), dtype);
  return b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, x, y), axes);
}

// Sums of products with cos and sin of 2 pi p q / n.
NodeId lower_fourier(GraphBuilder& b, const std::vector<NodeId>& parts, const FourierAttr& a) {
  DType dtype = b.dtype(parts[0]);
  Shape shape = b.shape(parts[0]);
  int64_t n = shape.back().constant();
  auto frequency = static_cast<int>(shape.size()) - 1;
  shape.insert(shape.end() - 1, Expr(a.count));
  int position = frequency + 1;
  auto line = [&](int64_t length, int axis) {
    return b.view(b.iota(DType::kInt64, length), View{shape, {Expr::index(axis)}, {}, 0});
  };
  NodeId turn = b.binary(BinaryOp::kMod,
                         b.binary(BinaryOp::kMul, line(n, position), line(a.count, frequency)),
                         b.scalar_int(DType::kInt64, n));
  double step = (a.inverse ? 2 : -2) * M_PI / static_cast<double>(n);
  NodeId angle =
      b.binary(BinaryOp::kMul, b.cast(turn, DType::kFloat64), b.scalar(DType::kFloat64, step));
  auto sum = [&](NodeId x, UnaryOp op) {
    View view{shape, {}, {}, 0};
    for (int k = 0; k < frequency; ++k) view.index.push_back(Expr::index(k));
    view.index.push_back(Expr::index(position));
    NodeId twiddle = b.cast(b.unary(op, angle), dtype);
    return b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, b.view(x, view), twiddle), {position});
  };
  NodeId first = sum(parts[0], a.imaginary ? UnaryOp::kSin : UnaryOp::kCos);
  if (parts.size() == 1) return first;
  NodeId second = sum(parts[1], a.imaginary ? UnaryOp::kCos : UnaryOp::kSin);
  return b.binary(a.imaginary ? BinaryOp::kAdd : BinaryOp::kSub, first, second);
}

}  // namespace

Graph lower_structure(const Graph& graph, Kept kept) {
  GraphBuilder builder(graph.symbols);
  builder.inputs_like(graph);
  std::vector<NodeId> renamed;
  for (const Node& node : graph.nodes) {
    std::vector<NodeId> operands;
    for (NodeId operand : node.operands) operands.push_back(renamed[at(operand)]);
    NodeId result;
    if (node.op == Op::kSoftmax) {
      result = lower_softmax(builder, operands[0], attr<SoftmaxAttr>(node));
    } else if (node.op == Op::kNorm) {
      result = lower_norm(builder, operands[0], attr<NormAttr>(node));
    } else if (node.op == Op::kContract && kept != Kept::kContractions) {
      result =
          lower_contract(builder, operands[0], operands[1], attr<ContractAttr>(node), node.dtype);
    } else if (node.op == Op::kFourier && kept != Kept::kTransforms) {
      result = lower_fourier(builder, operands, attr<FourierAttr>(node));
    } else {
      Node copy = node;
      copy.operands = operands;
      result = builder.raw(std::move(copy));
    }
    renamed.push_back(result);
  }
  for (const auto& output : graph.outputs) builder.output(renamed[at(output.node)]);
  return builder.finish();
}

}  // namespace common
