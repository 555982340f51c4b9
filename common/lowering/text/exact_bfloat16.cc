#include "common/lowering/text/exact_bfloat16.h"

#include <bit>

namespace common {

namespace {

// Of operations looked through: each may double the work.
constexpr int kDepth = 6;

// The halves that are cut off are zeros (little-endian).
bool constant_is_exact(const Node& node) {
  const Bytes& data = *attr<ConstantAttr>(node).data;
  for (size_t k = 0; k + 4 <= data.size(); k += 4) {
    if (data[k] != std::byte{0} || data[k + 1] != std::byte{0}) return false;
  }
  return true;
}

bool fill_is_exact(const Node& node) {
  auto fill = static_cast<float>(attr<ViewAttr>(node).view.fill);
  return (std::bit_cast<uint32_t>(fill) & 0xffffU) == 0;
}

bool is_exact(const Graph& body, NodeId id, int depth) {
  const Node& node = body.node(id);
  if (depth == 0 || node.dtype != DType::kFloat32) return false;
  auto all = [&](size_t from, size_t to) {
    for (size_t k = from; k < to; ++k) {
      if (!is_exact(body, node.operands[k], depth - 1)) return false;
    }
    return true;
  };
  switch (node.op) {
    case Op::kConstant:
      return constant_is_exact(node);
    case Op::kCast: {
      DType from = body.node(node.operands[0]).dtype;
      return from == DType::kBfloat16 || from == DType::kBool || from == DType::kInt8 ||
             from == DType::kUint8;
    }
    case Op::kUnary: {
      UnaryOp op = attr<UnaryAttr>(node).op;
      return (op == UnaryOp::kNeg || op == UnaryOp::kAbs) && all(0, 1);
    }
    case Op::kBinary: {
      BinaryOp op = attr<BinaryAttr>(node).op;
      return (op == BinaryOp::kMin || op == BinaryOp::kMax) && all(0, 2);
    }
    case Op::kSelect:
      return all(1, 3);
    case Op::kView:
      return fill_is_exact(node) && all(0, 1);
    case Op::kGather:
      return all(0, 1);
    default:
      return false;
  }
}

}  // namespace

bool is_exact_bfloat16(const Graph& body, NodeId node) { return is_exact(body, node, kDepth); }

}  // namespace common
