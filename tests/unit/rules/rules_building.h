// What the cases of rules are built of: operations on the builder without its own simplifications.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rules_cases.h"

namespace coordinator::rules_testing {

using common::BinaryOp;
using common::Coordinate;
using common::DType;
using common::Expr;
using common::GraphBuilder;
using common::InputKind;
using common::Op;
using common::ReduceOp;
using common::ScanOp;
using common::ScatterMode;
using common::Shape;
using common::UnaryOp;
using common::View;
using IrNode = common::NodeId;
using Cases = std::multimap<std::string, RuleCase>;

inline const std::vector<DType> kFloats{DType::kFloat32, DType::kFloat64};
inline const std::vector<DType> kIntegers{DType::kInt64, DType::kInt32, DType::kInt8,
                                          DType::kUint8};
inline const std::vector<DType> kNumbers{DType::kFloat32, DType::kFloat64, DType::kInt64,
                                         DType::kInt32,   DType::kInt8,    DType::kUint8};
inline const std::vector<DType> kBool{DType::kBool};

inline const Expr s0 = Expr::symbol(0);

inline IrNode input(GraphBuilder& b, DType dtype, Shape shape = {s0, 6}) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "x");
}
inline IrNode weight(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kWeight, dtype, std::move(shape), "w");
}
// Views are composed by the builder; this one stays as it is.
inline IrNode raw_view(GraphBuilder& b, IrNode x, View view) {
  Shape shape = view.shape;
  return b.raw({Op::kView, b.dtype(x), shape, {x}, common::ViewAttr{std::move(view)}});
}
inline IrNode spread(GraphBuilder& b, IrNode x, Shape shape) {
  return raw_view(b, x, *common::view_expand(b.shape(x), shape));
}
// Of the shape of `like`. (Shapes are copied: the builder moves its nodes as it grows.)
inline IrNode filled(GraphBuilder& b, DType dtype, IrNode like, double value) {
  Shape shape = b.shape(like);
  return b.full(dtype, shape, value);
}
inline IrNode unary(GraphBuilder& b, UnaryOp op, IrNode x) {
  bool to_bool = op == UnaryOp::kIsNan || op == UnaryOp::kIsInf;
  return b.raw(
      {Op::kUnary, to_bool ? DType::kBool : b.dtype(x), b.shape(x), {x}, common::UnaryAttr{op}});
}
inline IrNode binary(GraphBuilder& b, BinaryOp op, IrNode x, IrNode y) {
  DType dtype = common::is_comparison(op) ? DType::kBool : b.dtype(x);
  return b.raw({Op::kBinary, dtype, b.shape(x), {x, y}, common::BinaryAttr{op}});
}
inline IrNode select(GraphBuilder& b, IrNode c, IrNode x, IrNode y) {
  return b.raw({Op::kSelect, b.dtype(x), b.shape(x), {c, x, y}, {}});
}

}  // namespace coordinator::rules_testing
