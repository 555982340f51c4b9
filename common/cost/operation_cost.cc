#include "common/cost/operation_cost.h"

#include <algorithm>

#include "common/cost/loop_time.h"

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

bool is_position(ReduceOp op) { return op == ReduceOp::kArgmax || op == ReduceOp::kArgmin; }

// Numbers become whole ones of the same order, among which NaN is the greatest.
bool is_ordered(const Node& node) {
  ReduceOp op = attr<ReduceAttr>(node).op;
  return (op == ReduceOp::kMax || op == ReduceOp::kMin) && is_float(node.dtype);
}

// Sums of anything but products are carried in float64.
bool is_carried(const Graph& body, const Node& node) {
  const Node& operand = body.node(node.operands[0]);
  bool is_product = operand.op == Op::kBinary && attr<BinaryAttr>(operand).op == BinaryOp::kMul;
  return attr<ReduceAttr>(node).op == ReduceOp::kSum && !is_product;
}

// Positions are selected along with values, eight bytes each.
double reduction_weight(const Node& node, bool carries) {
  if (is_position(attr<ReduceAttr>(node).op)) return 9;
  if (is_ordered(node)) return 4;
  return carries || dtype_size(node.dtype) == 8 ? 2 : 1;
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

StepWork operation_work(const Node& node) {
  const OperationCost cost = operation_cost(node);
  const double weight = cost.weight * (dtype_size(node.dtype) == 8 ? 2 : 1);
  switch (cost.hardness) {
    case Hardness::kSimple:
      return node.op == Op::kSelect ? StepWork{.choices = weight} : StepWork{.simple = weight};
    case Hardness::kDivision:
      return {.divisions = weight};
    default:
      return node.dtype == DType::kFloat64 ? StepWork{.calls = 1} : StepWork{.functions = weight};
  }
}

StepWork reduction_work(const Graph& body, const Node& node) {
  return {.simple = reduction_weight(node, is_carried(body, node))};
}

// Short rows are reduced in a few instructions.
StepWork row_end_work(const Graph& body, const Node& node, double length) {
  constexpr double kLong = 16;
  if (length <= kWrittenOut) return {};
  const double sums = is_position(attr<ReduceAttr>(node).op) ? 3 : is_carried(body, node) ? 2 : 1;
  return {.row_sums = sums * std::min(1.0, length / kLong)};
}

StepWork lane_reduction_work(const Node& node, bool in_memory) {
  return {.simple = reduction_weight(node, false) + (in_memory ? 2 : 0)};
}

}  // namespace common
