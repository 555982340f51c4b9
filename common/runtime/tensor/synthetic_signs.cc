// Which values float inputs may take: wishes for a sign flow backward from roots, logarithms and
// powers of constants. Updates of parameters are followed to what they read.
#include <cmath>
#include <optional>

#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"
#include "common/runtime/tensor/synthetic.h"

namespace common {
namespace {

// What one node's values should be.
struct Wish {
  bool not_negative = false;
  bool not_positive = false;
  bool in_sum = false;   // other values were added on the way to the root
  bool counts = false;   // the exponent of a constant
  bool exceeds = false;  // another value is subtracted

  bool has_sign() const { return not_negative != not_positive; }
  Wish negated() const { return {not_positive, not_negative, in_sum, counts, exceeds}; }
  void join(const Wish& other) {
    not_negative |= other.not_negative;
    not_positive |= other.not_positive;
    in_sum |= other.in_sum;
    counts |= other.counts;
    exceeds |= other.exceeds;
  }
};
constexpr Wish kNotNegative{true, false, false, false, false};

// The node behind views and casts.
NodeId source_of(const Graph& graph, NodeId id) {
  while (graph.node(id).op == Op::kView || graph.node(id).op == Op::kCast) {
    id = graph.node(id).operands[0];
  }
  return id;
}

class Signs {
 public:
  explicit Signs(const Graph& graph) : graph_(graph), wishes_(graph.nodes.size()) {
    for (const Node& node : graph.nodes) is_not_negative_.push_back(find_sign(node));
  }

  // One per input.
  std::vector<Wish> run() {
    for (size_t i = graph_.nodes.size(); i-- > 0;) backward(graph_.nodes[i], wishes_[i]);
    std::vector<Wish> of_inputs(graph_.inputs.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op == Op::kInput) of_inputs[at(attr<InputAttr>(node).position)].join(wishes_[i]);
    }
    return of_inputs;
  }

 private:
  // The number that all elements of a node are.
  std::optional<double> constant(NodeId id) const {
    const Node* node = &graph_.node(id);
    while ((node->op == Op::kView && attr<ViewAttr>(*node).view.valid.empty()) ||
           node->op == Op::kCast) {
      node = &graph_.node(node->operands[0]);
    }
    return node->op == Op::kConstant ? uniform_constant(*node) : std::nullopt;
  }

  // x * x, or x * number * x.
  bool is_square(const Node& node) const {
    const NodeId a = node.operands[0], b = node.operands[1];
    return a == b || is_multiple(a, b) || is_multiple(b, a);
  }
  // Whether the one is the other times a number that is not negative.
  bool is_multiple(NodeId product, NodeId of) const {
    const Node& node = graph_.node(product);
    if (node.op != Op::kBinary || attr<BinaryAttr>(node).op != BinaryOp::kMul) return false;
    for (size_t k : {size_t{0}, size_t{1}}) {
      auto number = constant(node.operands[k]);
      if (node.operands[1 - k] == of && number && *number >= 0) return true;
    }
    return false;
  }

  // Whether no value of the node is negative whatever the inputs hold.
  bool find_sign(const Node& node) const {
    auto known = [&](size_t k) { return is_not_negative_[at(node.operands[k])] != 0; };
    switch (node.op) {
      case Op::kConstant: {
        auto value = uniform_constant(node);
        return value && *value >= 0;
      }
      case Op::kIota:
      case Op::kSoftmax:
        return node.op == Op::kIota || !attr<SoftmaxAttr>(node).log;
      case Op::kView:
        return known(0) && attr<ViewAttr>(node).view.valid.empty();
      case Op::kCast:
      case Op::kReduce:
        return known(0);
      case Op::kSelect:
        return known(1) && known(2);
      case Op::kUnary:
        switch (attr<UnaryAttr>(node).op) {
          case UnaryOp::kAbs:
          case UnaryOp::kExp:
          case UnaryOp::kExp2:
          case UnaryOp::kSqrt:
          case UnaryOp::kRsqrt:
          case UnaryOp::kSigmoid:
            return true;
          case UnaryOp::kRecip:
            return known(0);
          default:
            return false;
        }
      case Op::kBinary:
        switch (attr<BinaryAttr>(node).op) {
          case BinaryOp::kMul:
            return is_square(node) || (known(0) && known(1));
          case BinaryOp::kAdd:
          case BinaryOp::kDiv:
          case BinaryOp::kMin:
            return known(0) && known(1);
          case BinaryOp::kMax:
            return known(0) || known(1);
          case BinaryOp::kPow:
            return known(0);
          default:
            return false;
        }
      default:
        return false;
    }
  }

  void wish(NodeId id, const Wish& wanted) {
    if (is_float(graph_.node(id).dtype)) wishes_[at(id)].join(wanted);
  }

  void backward(const Node& node, const Wish& wanted) {
    switch (node.op) {
      case Op::kUnary:
        return backward_unary(node, wanted);
      case Op::kBinary:
        return backward_binary(node, wanted);
      case Op::kView:
      case Op::kCast:
      case Op::kReduce:
        return wish(node.operands[0], wanted);
      case Op::kSelect:
        wish(node.operands[1], wanted);
        return wish(node.operands[2], wanted);
      case Op::kLoop:
        return backward_loop(node);
      default:
        return;
    }
  }

  void backward_unary(const Node& node, const Wish& wanted) {
    const NodeId x = node.operands[0];
    switch (attr<UnaryAttr>(node).op) {
      case UnaryOp::kSqrt:
      case UnaryOp::kRsqrt:
      case UnaryOp::kLog:
      case UnaryOp::kLog2:
      case UnaryOp::kLog10:
        return wish(x, kNotNegative);
      case UnaryOp::kNeg:
        return wish(x, wanted.negated());
      case UnaryOp::kRecip:
        return wish(x, wanted);
      default:
        return;
    }
  }

  void backward_binary(const Node& node, const Wish& wanted) {
    const NodeId a = node.operands[0], b = node.operands[1];
    switch (attr<BinaryAttr>(node).op) {
      case BinaryOp::kPow: {
        auto exponent = constant(b);
        if (exponent && *exponent != std::floor(*exponent)) wish(a, kNotNegative);
        return;
      }
      case BinaryOp::kSub:
        if (wanted.not_negative && wanted.has_sign() && !constant(a) && !constant(b)) {
          wish(a, {true, false, true, false, true});
        }
        correction(a, b);
        return correction(b, a);
      case BinaryOp::kMax:
        if (!wanted.not_negative || is_not_negative_[at(a)] || is_not_negative_[at(b)]) return;
        [[fallthrough]];
      case BinaryOp::kAdd: {
        Wish summed = wanted;
        summed.in_sum = wanted.in_sum || (!constant(a) && !constant(b));
        if (!wanted.has_sign()) return;
        if (!constant(a)) wish(a, summed);
        if (!constant(b)) wish(b, summed);
        return;
      }
      case BinaryOp::kMul:
      case BinaryOp::kDiv:
        if (!wanted.has_sign() || is_square(node)) return;
        factor(a, b, wanted);
        return factor(b, a, wanted);
      default:
        return;
    }
  }

  // What a product's or quotient's sign asks of one part, beside the other.
  void factor(NodeId part, NodeId other, const Wish& wanted) {
    if (constant(part) || is_not_negative_[at(part)]) return;
    if (auto value = constant(other)) return wish(part, *value < 0 ? wanted.negated() : wanted);
    if (is_not_negative_[at(other)]) return wish(part, wanted);
    if (wanted.not_negative) wish(part, wanted);
  }

  // 1 - beta^t, which is 0 for t = 0: beta in (0, 1).
  void correction(NodeId one, NodeId power) {
    auto value = constant(one);
    const Node& node = graph_.node(source_of(graph_, power));
    if (!value || node.op != Op::kBinary || attr<BinaryAttr>(node).op != BinaryOp::kPow) return;
    auto base = constant(node.operands[0]);
    if (base && *base > 0 && *base < 1) wish(node.operands[1], {true, false, true, true, false});
  }

  void backward_loop(const Node& node) {
    const auto& loop = attr<LoopAttr>(node);
    std::vector<Wish> inside = Signs(*loop.body).run();
    const int64_t fixed = loop.carried + loop.invariant;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      auto slot = static_cast<int64_t>(k);
      if (slot >= fixed) slot = fixed + (slot - fixed) / loop.trip_count;
      wish(node.operands[k], inside[at(slot)]);
    }
  }

  const Graph& graph_;
  std::vector<Wish> wishes_;
  std::vector<char> is_not_negative_;
};

// Whether all elements are one number, known or computed.
bool is_one_number(const Graph& graph, NodeId id) {
  return element_count(graph.node(source_of(graph, id)).shape).is_constant(1);
}

// A product's other operand, where one is a number.
std::optional<NodeId> scaled_value(const Graph& graph, NodeId id) {
  const Node& node = graph.node(source_of(graph, id));
  if (node.op != Op::kBinary) return std::nullopt;
  const BinaryOp op = attr<BinaryAttr>(node).op;
  if (op != BinaryOp::kMul && op != BinaryOp::kDiv) return std::nullopt;
  if (is_one_number(graph, node.operands[1])) return node.operands[0];
  if (op == BinaryOp::kMul && is_one_number(graph, node.operands[0])) return node.operands[1];
  return std::nullopt;
}

// What an optimiser adds: a value times a number, or a quotient such as Adam's.
bool is_change(const Graph& graph, NodeId id) {
  if (scaled_value(graph, id)) return true;
  const Node& node = graph.node(source_of(graph, id));
  return node.op == Op::kBinary && attr<BinaryAttr>(node).op == BinaryOp::kDiv;
}

// The input of which a value is an update: input + change, the input scaled by a number or not.
// -1: of none.
int updated_input(const Graph& graph, NodeId id) {
  bool has_change = false;
  for (;;) {
    id = source_of(graph, id);
    const Node& node = graph.node(id);
    if (node.op == Op::kInput) return has_change ? attr<InputAttr>(node).position : -1;
    if (auto inner = scaled_value(graph, id)) {
      id = *inner;
      continue;
    }
    if (node.op != Op::kBinary) return -1;
    const BinaryOp op = attr<BinaryAttr>(node).op;
    if (op != BinaryOp::kAdd && op != BinaryOp::kSub) return -1;
    if (!is_change(graph, node.operands[1])) return -1;
    has_change = true;
    id = node.operands[0];
  }
}

}  // namespace

std::vector<FloatUse> float_uses(const Graph& graph) {
  std::vector<FloatUse> uses(graph.inputs.size());
  const std::vector<Wish> wishes = Signs(graph).run();
  for (size_t i = 0; i < uses.size(); ++i) {
    const bool may_choose = wishes[i].in_sum || graph.inputs[i].kind == InputKind::kState;
    uses[i].not_negative = wishes[i].not_negative && !wishes[i].not_positive && may_choose;
    uses[i].counts = uses[i].not_negative && wishes[i].counts;
    uses[i].exceeds = uses[i].not_negative && wishes[i].exceeds;
  }
  for (const GraphOutput& output : graph.outputs) {
    const int input = updated_input(graph, output.node);
    if (input >= 0 && graph.inputs[at(input)].shape == graph.node(output.node).shape) {
      uses[at(input)].trained = true;
    }
  }
  return uses;
}

}  // namespace common
