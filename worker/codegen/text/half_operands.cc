#include "worker/codegen/text/half_operands.h"

#include <optional>

#include "common/ir/hlir/builder.h"

namespace worker {

using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::Node;
using common::NodeId;
using common::Op;

namespace {

size_t at(int index) { return static_cast<size_t>(index); }

class Narrower {
 public:
  explicit Narrower(const Graph& body) : body_(body), builder_(body.symbols) {
    for (const auto& input : body.inputs) {
      builder_.input(input.kind, input.dtype, input.shape, input.name);
    }
  }

  Graph run(NodeId contraction) {
    for (size_t id = 0; id < body_.nodes.size(); ++id) {
      Node copy = body_.nodes[id];
      for (NodeId& operand : copy.operands) operand = renamed_[at(operand)];
      if (static_cast<NodeId>(id) == contraction) {
        for (size_t k = 0; k < copy.operands.size(); ++k) {
          if (auto half = narrow(body_.nodes[id].operands[k])) copy.operands[k] = *half;
        }
      }
      renamed_.push_back(builder_.raw(std::move(copy)));
    }
    for (const auto& output : body_.outputs) builder_.output(renamed_[at(output.node)]);
    return builder_.finish();
  }

 private:
  // The same values in half precision, whatever happened to them since they were.
  std::optional<NodeId> narrow(NodeId id) {
    const Node& node = body_.node(id);
    if (common::is_half(node.dtype)) return renamed_[at(id)];
    if (node.dtype != DType::kFloat32) return std::nullopt;
    switch (node.op) {
      case Op::kCast:
        if (!common::is_half(body_.node(node.operands[0]).dtype)) return std::nullopt;
        return renamed_[at(node.operands[0])];
      case Op::kView:
        // Other fills may round.
        if (attr<common::ViewAttr>(node).view.fill != 0) return std::nullopt;
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

  const Graph& body_;
  GraphBuilder builder_;
  std::vector<NodeId> renamed_;
};

}  // namespace

Graph with_half_operands(const Graph& body, NodeId contraction) {
  return Narrower(body).run(contraction);
}

}  // namespace worker
