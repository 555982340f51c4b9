#include "common/lowering/loops/late_reads.h"

#include <algorithm>
#include <utility>

#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"

namespace common {
namespace {

// Collects the nodes of one kind, inputs or reductions, that an element of a node is made of
// directly. A node that several ways lead to counts once a position.
class DirectWalk {
 public:
  DirectWalk(const Graph& body, Op kind) : body_(body), kind_(kind) {}

  std::vector<DirectUse> from(NodeId id) {
    Indices indices;
    for (size_t k = 0; k < body_.node(id).shape.size(); ++k) {
      indices.push_back(Expr::index(static_cast<int>(k)));
    }
    walk(id, indices);
    return std::move(uses_);
  }

 private:
  void walk(NodeId id, const Indices& indices) {
    constexpr size_t kVisitsMax = 1000;
    std::pair<NodeId, Indices> here{id, indices};
    if (seen_.size() >= kVisitsMax || std::find(seen_.begin(), seen_.end(), here) != seen_.end()) {
      return;
    }
    seen_.push_back(here);
    const Node& node = body_.node(id);
    switch (node.op) {
      case Op::kInput:
      case Op::kReduce:
        if (node.op == kind_) uses_.push_back({id, indices});
        return;
      case Op::kView: {
        const View& view = attr<ViewAttr>(node).view;
        if (!view.valid.empty()) return;
        return walk(node.operands[0], with_indices(view.index, indices));
      }
      case Op::kCast:
      case Op::kUnary:
      case Op::kBinary:
      case Op::kSelect:
      case Op::kPhilox:
        for (NodeId operand : node.operands) walk(operand, indices);
        return;
      default:
        return;
    }
  }

  const Graph& body_;
  const Op kind_;
  std::vector<DirectUse> uses_;
  std::vector<std::pair<NodeId, Indices>> seen_;
};

// Inputs that reductions read on which `node` depends, and how many such reductions there are.
struct Reduced {
  std::set<NodeId> inputs;
  size_t reductions = 0;
};
Reduced reduced_before(const Graph& body, NodeId node) {
  std::vector<char> wanted(body.nodes.size(), 0), is_reduced(body.nodes.size(), 0);
  wanted[at(node)] = 1;
  Reduced result;
  for (NodeId id = node; id >= 0; --id) {
    if (wanted[at(id)] == 0) continue;
    const Node& here = body.node(id);
    bool reduces = here.op == Op::kReduce && id != node;
    if (reduces) ++result.reductions;
    if (here.op == Op::kInput && is_reduced[at(id)] != 0) result.inputs.insert(id);
    for (NodeId operand : here.operands) {
      wanted[at(operand)] = 1;
      if (reduces || is_reduced[at(id)] != 0) is_reduced[at(operand)] = 1;
    }
  }
  return result;
}

}  // namespace

std::vector<DirectUse> late_reads(const Graph& body, NodeId node) {
  Reduced before = reduced_before(body, node);
  if (before.reductions == 0) return {};
  std::vector<DirectUse> reads = DirectWalk(body, Op::kInput).from(node);
  reads.erase(std::remove_if(reads.begin(), reads.end(),
                             [&](const auto& read) { return before.inputs.count(read.node) != 0; }),
              reads.end());
  return reads;
}

std::vector<DirectUse> direct_reductions(const Graph& body, NodeId node) {
  return DirectWalk(body, Op::kReduce).from(node);
}

std::set<NodeId> late_inputs(const Graph& body) {
  std::set<NodeId> inputs;
  auto add = [&](NodeId node) {
    for (const DirectUse& read : late_reads(body, node)) inputs.insert(read.node);
  };
  for (const GraphOutput& output : body.outputs) {
    NodeId node = computed_node(body, output.node);
    add(node);
    for (const DirectUse& reduction : direct_reductions(body, node)) {
      add(body.node(reduction.node).operands[0]);
    }
  }
  return inputs;
}

NodeId computed_node(const Graph& body, NodeId output) {
  const Node& node = body.node(output);
  return node.op == Op::kScatter ? node.operands[1] : output;
}

}  // namespace common
