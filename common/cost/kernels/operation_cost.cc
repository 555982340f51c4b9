#include "common/cost/kernels/operation_cost.h"

namespace common {
namespace {

OperationCost unary_cost(UnaryOp op) {
  if (op <= UnaryOp::kNot) return {};
  switch (op) {
    case UnaryOp::kSqrt:
    case UnaryOp::kRsqrt:
    case UnaryOp::kRecip:
      return {Hardness::kDivision, 1};
    case UnaryOp::kExp:
    case UnaryOp::kExp2:
    case UnaryOp::kExpm1:
    case UnaryOp::kSigmoid:
      return {Hardness::kFunction, 1};
    case UnaryOp::kSin:
    case UnaryOp::kCos:
    case UnaryOp::kTan:
    case UnaryOp::kLgamma:
    case UnaryOp::kDigamma:
      return {Hardness::kFunction, 6};
    case UnaryOp::kErf:
    case UnaryOp::kTanh:
      return {Hardness::kFunction, 0.8};
    case UnaryOp::kErfc:
    case UnaryOp::kErfinv:
      return {Hardness::kFunction, 2.6};
    case UnaryOp::kFloor:
    case UnaryOp::kCeil:
    case UnaryOp::kTrunc:
    case UnaryOp::kRound:
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
      return {};
    default:
      return {Hardness::kFunction, 1.8};
  }
}

}  // namespace

OperationCost operation_cost(const Node& node) {
  if (node.op == Op::kUnary) return unary_cost(attr<UnaryAttr>(node).op);
  if (node.op == Op::kPhilox) return {Hardness::kFunction, 3};
  if (node.op != Op::kBinary) return {};
  BinaryOp op = attr<BinaryAttr>(node).op;
  if (op == BinaryOp::kDiv) return {Hardness::kDivision, 1};
  bool is_hard = op > BinaryOp::kDiv && op <= BinaryOp::kNextafter && op != BinaryOp::kMin &&
                 op != BinaryOp::kMax;
  // Integers are divided by what is mostly a constant.
  if (is_hard && !is_float(node.dtype)) return {Hardness::kDivision, 1};
  if (is_hard) return {Hardness::kFunction, 2};
  return {};
}

}  // namespace common
