#include "common/lowering/body/half_operands.h"

#include <functional>
#include <optional>

#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"

namespace common {

namespace {

// Copies a body whose contraction gets other operands.
class Rewriter {
 public:
  explicit Rewriter(const Graph& body) : body_(body), builder_(body.symbols) {
    builder_.inputs_like(body);
  }

  Graph with_half_operands(NodeId contraction) {
    return run(contraction, [this](NodeId operand, size_t) { return narrow(operand); });
  }
  Graph with_unrounded_operand(NodeId contraction, int which) {
    return run(contraction, [&](NodeId operand, size_t k) {
      return k == at(which) ? unrounded(operand) : std::nullopt;
    });
  }

 private:
  Graph run(NodeId contraction,
            const std::function<std::optional<NodeId>(NodeId operand, size_t k)>& other) {
    for (size_t id = 0; id < body_.nodes.size(); ++id) {
      Node copy = body_.nodes[id];
      for (NodeId& operand : copy.operands) operand = renamed_[at(operand)];
      if (static_cast<NodeId>(id) == contraction) {
        for (size_t k = 0; k < copy.operands.size(); ++k) {
          if (auto found = other(body_.nodes[id].operands[k], k)) copy.operands[k] = *found;
        }
      }
      renamed_.push_back(builder_.raw(std::move(copy)));
    }
    for (const auto& output : body_.outputs) builder_.output(renamed_[at(output.node)]);
    return builder_.finish();
  }

  // The same values in half precision, whatever happened to them since they were.
  std::optional<NodeId> narrow(NodeId id) {
    const Node& node = body_.node(id);
    if (is_half(node.dtype)) return renamed_[at(id)];
    if (node.dtype != DType::kFloat32) return std::nullopt;
    switch (node.op) {
      case Op::kCast:
        if (!is_half(body_.node(node.operands[0]).dtype)) return std::nullopt;
        return renamed_[at(node.operands[0])];
      case Op::kView:
        // Other fills may round.
        if (attr<ViewAttr>(node).view.fill != 0) return std::nullopt;
        return rebuilt(node, 0, 1);
      case Op::kGather:
        return rebuilt(node, 0, 1);
      case Op::kSelect:
        return rebuilt(node, 1, 3);
      default:
        return std::nullopt;
    }
  }

  // The node over narrow operands [from, to), which are of one type.
  std::optional<NodeId> rebuilt(const Node& node, size_t from, size_t to) {
    Node copy = node;
    for (NodeId& operand : copy.operands) operand = renamed_[at(operand)];
    for (size_t k = from; k < to; ++k) {
      auto half = narrow(node.operands[k]);
      if (!half) return std::nullopt;
      copy.operands[k] = *half;
      if (k != from && builder_.dtype(*half) != copy.dtype) return std::nullopt;
      copy.dtype = builder_.dtype(*half);
    }
    return builder_.raw(std::move(copy));
  }

  // The same values in float32 before they were rounded to a half type.
  std::optional<NodeId> unrounded(NodeId id) {
    const Node& node = body_.node(id);
    if (node.op != Op::kCast && node.op != Op::kView && node.op != Op::kSelect) {
      return node.dtype == DType::kFloat32 ? std::optional<NodeId>(renamed_[at(id)]) : std::nullopt;
    }
    if (node.op == Op::kCast) return unrounded(node.operands[0]);
    Node copy = node;
    for (NodeId& operand : copy.operands) operand = renamed_[at(operand)];
    for (size_t k = node.op == Op::kSelect ? 1 : 0; k < copy.operands.size(); ++k) {
      const Node& operand = body_.node(node.operands[k]);
      bool is_number = operand.op == Op::kConstant && operand.shape.empty();
      auto value = is_number ? uniform_constant(operand) : std::nullopt;
      auto wide = value ? builder_.scalar(DType::kFloat32, *value) : unrounded(node.operands[k]);
      if (!wide) return std::nullopt;
      copy.operands[k] = *wide;
    }
    copy.dtype = DType::kFloat32;
    return builder_.raw(std::move(copy));
  }

  const Graph& body_;
  GraphBuilder builder_;
  std::vector<NodeId> renamed_;
};

}  // namespace

Graph with_half_operands(const Graph& body, NodeId contraction) {
  return Rewriter(body).with_half_operands(contraction);
}

Graph with_unrounded_operand(const Graph& body, NodeId contraction, int operand) {
  return Rewriter(body).with_unrounded_operand(contraction, operand);
}

}  // namespace common
