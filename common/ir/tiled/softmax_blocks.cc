#include "common/ir/tiled/softmax_blocks.h"

#include <limits>
#include <utility>

#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"
#include "common/ir/nest/node_adder.h"

namespace common {
namespace {

class BlockedSoftmax {
 public:
  BlockedSoftmax(Graph& graph, NodeId scores, int axis, int64_t keys, Expr parts)
      : nodes_(graph), scores_(scores), axis_(axis), keys_(keys), parts_(std::move(parts)) {}

  // In float64, of the scores' shape.
  NodeId build() {
    const Shape row = nodes_.shape(scores_);
    const Expr& length = row[at(axis_)];
    const Expr share = ceil_div(length, parts_ * keys_) * keys_;  // of a part
    const auto rank = static_cast<int>(row.size());
    // The scores' axes, of which the row's is a part; then blocks, and keys within.
    View blocks;
    blocks.shape = row;
    blocks.shape[at(axis_)] = parts_;
    blocks.shape.push_back(floor_div(share, keys_));
    blocks.shape.push_back(keys_);
    const Expr key = Expr::index(axis_) * share + Expr::index(rank) * keys_ + Expr::index(rank + 1);
    for (int d = 0; d < rank; ++d) blocks.index.push_back(d == axis_ ? key : Expr::index(d));
    blocks.valid = {{key, length}};
    blocks.fill = -std::numeric_limits<double>::infinity();
    const Shape shape = blocks.shape;
    const NodeId x = nodes_.view(nodes_.cast(scores_, DType::kFloat64), std::move(blocks));

    const NodeId greatest = at_least_finite(nodes_.reduce(ReduceOp::kMax, x, {rank + 1}));
    const NodeId terms =
        nodes_.unary(UnaryOp::kExp,
                     nodes_.binary(BinaryOp::kSub, x, nodes_.widened(greatest, shape, {rank + 1})));
    const NodeId sums = nodes_.reduce(ReduceOp::kSum, terms, {rank + 1});
    const NodeId top = nodes_.reduce(ReduceOp::kMax, greatest, {axis_, rank});
    const Shape block(shape.begin(), shape.end() - 1);
    const NodeId scales = nodes_.unary(
        UnaryOp::kExp,
        nodes_.binary(BinaryOp::kSub, greatest, nodes_.widened(top, block, {axis_, rank})));
    const NodeId total =
        nodes_.reduce(ReduceOp::kSum, nodes_.binary(BinaryOp::kMul, sums, scales), {axis_, rank});
    const NodeId weights =
        nodes_.binary(BinaryOp::kDiv, scales, nodes_.widened(total, block, {axis_, rank}));
    const NodeId result =
        nodes_.binary(BinaryOp::kMul, terms, nodes_.widened(weights, shape, {rank + 1}));

    View back{row, {}, {}, 0};
    const Expr position = Expr::index(axis_), within = mod(position, share);
    for (int d = 0; d < rank; ++d) {
      back.index.push_back(d == axis_ ? floor_div(position, share) : Expr::index(d));
    }
    back.index.push_back(floor_div(within, keys_));
    back.index.push_back(mod(within, keys_));
    return nodes_.view(result, std::move(back));
  }

 private:
  // The greatest score of a block in which all are hidden is -infinity, from which nothing can be
  // subtracted.
  NodeId at_least_finite(NodeId x) {
    const double least = std::numeric_limits<double>::lowest();
    return nodes_.binary(BinaryOp::kMax, x, nodes_.full(DType::kFloat64, nodes_.shape(x), least));
  }

  NodeAdder nodes_;
  NodeId scores_;
  int axis_;
  Expr keys_, parts_;
};

}  // namespace

RewrittenBody with_softmax_in_blocks(const Graph& body, NodeId softmax, int64_t keys,
                                     const Expr& parts) {
  RewrittenBody result;
  Graph& graph = result.body;
  graph.symbols = body.symbols;
  graph.inputs = body.inputs;
  for (NodeId id = 0; id < static_cast<NodeId>(body.nodes.size()); ++id) {
    Node node = body.node(id);
    for (NodeId& operand : node.operands) operand = result.node_of[at(operand)];
    if (id == softmax) {
      const int axis = attr<SoftmaxAttr>(node).axis;
      const NodeId wide = BlockedSoftmax(graph, node.operands[0], axis, keys, parts).build();
      node = {Op::kCast, node.dtype, node.shape, {wide}, {}};
    }
    graph.nodes.push_back(std::move(node));
    result.node_of.push_back(static_cast<NodeId>(graph.nodes.size()) - 1);
  }
  for (const GraphOutput& output : body.outputs) {
    graph.outputs.push_back(output);
    graph.outputs.back().node = result.node_of[at(output.node)];
  }
  return result;
}

}  // namespace common
