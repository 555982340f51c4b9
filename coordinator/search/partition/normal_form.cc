#include "coordinator/search/partition/normal_form.h"

#include <cmath>
#include <unordered_map>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::Digest;
using common::DType;
using common::Node;
using common::NodeId;
using common::Op;
using common::UnaryOp;

// Powers of two up to this exponent have reciprocals that are neither subnormal nor infinite.
constexpr int kExponentMax = 100;

// Bit for bit. The least and the greatest are missing: of 0 and -0 either may be given.
bool is_commutative(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kXor:
    case BinaryOp::kEqual:
    case BinaryOp::kNotEqual:
      return true;
    default:
      return false;
  }
}

// Every value of `from` is one of `to`.
bool widens(DType from, DType to) {
  switch (from) {
    case DType::kFloat16:
    case DType::kBfloat16:
      return to == DType::kFloat32 || to == DType::kFloat64;
    case DType::kFloat32:
      return to == DType::kFloat64;
    case DType::kInt8:
      return to == DType::kInt16 || to == DType::kInt32 || to == DType::kInt64;
    case DType::kInt16:
    case DType::kUint8:
      return to == DType::kInt32 || to == DType::kInt64;
    case DType::kInt32:
      return to == DType::kInt64;
    default:
      return false;
  }
}

bool is_number(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

class NormalForm {
 public:
  explicit NormalForm(const common::Graph& graph) : graph_(graph), builder_(graph.symbols) {}

  common::Graph run() {
    const std::vector<NodeId> inputs = builder_.inputs_like(graph_);
    std::vector<NodeId> copied;
    for (const Node& original : graph_.nodes) {
      if (original.op == Op::kInput) {
        copied.push_back(inputs[at(common::attr<common::InputAttr>(original).position)]);
        continue;
      }
      Node node = original;
      for (NodeId& operand : node.operands) operand = copied[at(operand)];
      copied.push_back(put(std::move(node)));
    }
    for (const common::GraphOutput& output : graph_.outputs) {
      builder_.output_like(output, copied[at(output.node)]);
    }
    return builder_.finish();
  }

 private:
  static size_t at(int32_t id) { return static_cast<size_t>(id); }

  NodeId put(Node node) {
    switch (node.op) {
      case Op::kUnary:
        if (is_unary(node, UnaryOp::kNeg) && is_number(node.dtype)) {
          const Node& x = builder_.node(node.operands[0]);
          if (is_unary(x, UnaryOp::kNeg)) return x.operands[0];
        }
        break;
      case Op::kCast: {
        const Node& wide = builder_.node(node.operands[0]);
        if (wide.op != Op::kCast) break;
        NodeId x = wide.operands[0];
        if (builder_.dtype(x) == node.dtype && widens(node.dtype, wide.dtype)) return x;
        break;
      }
      case Op::kSelect: {
        const Node& condition = builder_.node(node.operands[0]);
        if (!is_unary(condition, UnaryOp::kNot)) break;
        node.operands = {condition.operands[0], node.operands[2], node.operands[1]};
        break;
      }
      case Op::kBinary:
        return put_binary(std::move(node));
      default:
        break;
    }
    return builder_.raw(std::move(node));
  }

  NodeId put_binary(Node node) {
    BinaryOp op = common::attr<common::BinaryAttr>(node).op;
    NodeId a = node.operands[0], b = node.operands[1];
    if (op == BinaryOp::kDiv && common::is_float(node.dtype)) {
      auto divisor = builder_.uniform_value(b);
      int exponent = 0;
      if (divisor && std::abs(std::frexp(*divisor, &exponent)) == 0.5 &&
          std::abs(exponent) <= kExponentMax) {
        node.attr = common::BinaryAttr{op = BinaryOp::kMul};
        node.operands[1] = b = builder_.full(node.dtype, node.shape, 1 / *divisor);
      }
    }
    if (op == BinaryOp::kAdd && is_number(node.dtype)) {
      if (a == b) {
        node.attr = common::BinaryAttr{op = BinaryOp::kMul};
        node.operands[1] = b = builder_.full(node.dtype, node.shape, 2);
      } else if (is_unary(builder_.node(b), UnaryOp::kNeg)) {
        node.attr = common::BinaryAttr{op = BinaryOp::kSub};
        node.operands[1] = builder_.node(b).operands[0];
      } else if (is_unary(builder_.node(a), UnaryOp::kNeg)) {
        node.attr = common::BinaryAttr{op = BinaryOp::kSub};
        node.operands = {b, builder_.node(a).operands[0]};
      }
    }
    if (is_commutative(op) && digest(b) < digest(a)) node.operands = {b, a};
    return builder_.raw(std::move(node));
  }

  static bool is_unary(const Node& node, UnaryOp op) {
    return node.op == Op::kUnary && common::attr<common::UnaryAttr>(node).op == op;
  }

  // Of what the node computes, whatever its number. Operands come before their users, and what was
  // asked for once is remembered, so that the stack is as deep as the model only the first time.
  Digest digest(NodeId root) {
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      NodeId id = stack.back();
      const Node& node = builder_.node(id);
      bool is_ready = digests_.count(id) == 0;
      for (NodeId operand : node.operands) {
        if (digests_.count(operand) != 0) continue;
        stack.push_back(operand);
        is_ready = false;
      }
      if (stack.back() != id) continue;
      stack.pop_back();
      if (!is_ready) continue;
      common::Hasher hasher;
      hasher.text(common::describe(node));
      for (NodeId operand : node.operands) hasher.digest(digests_.at(operand));
      if (const auto* loop = std::get_if<common::LoopAttr>(&node.attr)) {
        hasher.digest(common::graph_hash(*loop->body));
      }
      digests_[id] = hasher.finish();
    }
    return digests_.at(root);
  }

  const common::Graph& graph_;
  common::GraphBuilder builder_;
  std::unordered_map<NodeId, Digest> digests_;
};

}  // namespace

common::Graph normal_form(const common::Graph& graph) { return NormalForm(graph).run(); }

}  // namespace coordinator
