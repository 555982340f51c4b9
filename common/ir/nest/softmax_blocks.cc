#include "common/ir/nest/softmax_blocks.h"

#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "common/ir/expr/ceil_div.h"
#include "common/ir/expr/index.h"

namespace common {
namespace {

class BlockedSoftmax {
 public:
  BlockedSoftmax(Graph& graph, NodeId scores, int axis, int64_t keys, Expr parts)
      : graph_(graph), scores_(scores), axis_(axis), keys_(keys), parts_(std::move(parts)) {}

  // In float64, of the scores' shape.
  NodeId build() {
    const Shape row = graph_.node(scores_).shape;
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
    const NodeId x = view(cast(scores_), std::move(blocks));

    const NodeId greatest = at_least_finite(reduce(ReduceOp::kMax, x, {rank + 1}));
    const NodeId terms =
        unary(UnaryOp::kExp, binary(BinaryOp::kSub, x, widened(greatest, shape, {rank + 1})));
    const NodeId sums = reduce(ReduceOp::kSum, terms, {rank + 1});
    const NodeId top = reduce(ReduceOp::kMax, greatest, {axis_, rank});
    const Shape block(shape.begin(), shape.end() - 1);
    const NodeId scales =
        unary(UnaryOp::kExp, binary(BinaryOp::kSub, greatest, widened(top, block, {axis_, rank})));
    const NodeId total =
        reduce(ReduceOp::kSum, binary(BinaryOp::kMul, sums, scales), {axis_, rank});
    const NodeId weights = binary(BinaryOp::kDiv, scales, widened(total, block, {axis_, rank}));
    const NodeId result = binary(BinaryOp::kMul, terms, widened(weights, shape, {rank + 1}));

    View back{row, {}, {}, 0};
    const Expr position = Expr::index(axis_), within = mod(position, share);
    for (int d = 0; d < rank; ++d) {
      back.index.push_back(d == axis_ ? floor_div(position, share) : Expr::index(d));
    }
    back.index.push_back(floor_div(within, keys_));
    back.index.push_back(mod(within, keys_));
    return view(result, std::move(back));
  }

 private:
  NodeId add(Op op, Shape shape, std::vector<NodeId> operands, Attr attribute) {
    graph_.nodes.push_back(
        {op, DType::kFloat64, std::move(shape), std::move(operands), std::move(attribute)});
    return static_cast<NodeId>(graph_.nodes.size()) - 1;
  }
  NodeId view(NodeId x, View view) {
    Shape shape = view.shape;
    return add(Op::kView, std::move(shape), {x}, ViewAttr{std::move(view)});
  }
  NodeId cast(NodeId x) { return add(Op::kCast, graph_.node(x).shape, {x}, {}); }
  NodeId unary(UnaryOp op, NodeId x) {
    return add(Op::kUnary, graph_.node(x).shape, {x}, UnaryAttr{op});
  }
  NodeId binary(BinaryOp op, NodeId a, NodeId b) {
    return add(Op::kBinary, graph_.node(a).shape, {a, b}, BinaryAttr{op});
  }
  NodeId reduce(ReduceOp op, NodeId x, std::vector<int> axes) {
    Shape shape;
    size_t next = 0;
    for (size_t d = 0; d < graph_.node(x).shape.size(); ++d) {
      const bool is_reduced = next < axes.size() && axes[next] == static_cast<int>(d);
      if (is_reduced) ++next;
      if (!is_reduced) shape.push_back(graph_.node(x).shape[d]);
    }
    return add(Op::kReduce, std::move(shape), {x}, ReduceAttr{op, std::move(axes)});
  }
  // The operand in a shape that has the axes `added` besides.
  NodeId widened(NodeId x, const Shape& shape, const std::vector<int>& added) {
    View view{shape, {}, {}, 0};
    size_t next = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool is_added = next < added.size() && added[next] == static_cast<int>(d);
      if (is_added) ++next;
      if (!is_added) view.index.push_back(Expr::index(static_cast<int>(d)));
    }
    return this->view(x, std::move(view));
  }
  // The greatest score of a block in which all are hidden is -infinity, from which nothing can be
  // subtracted.
  NodeId at_least_finite(NodeId x) {
    const double least = std::numeric_limits<double>::lowest();
    auto bytes = std::make_shared<Bytes>(sizeof least);
    std::memcpy(bytes->data(), &least, sizeof least);
    const NodeId constant = add(Op::kConstant, {}, {}, ConstantAttr{std::move(bytes)});
    return binary(BinaryOp::kMax, x, view(constant, {graph_.node(x).shape, {}, {}, 0}));
  }

  Graph& graph_;
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
