// Appends nodes to a graph, for graphs whose axes are loops.
#pragma once

#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// Unlike GraphBuilder it leaves the nodes that are there as they are, gives every node a number of
// its own, and composes no views: each stays the loop that it stands for. Borrows the graph.
class NodeAdder {
 public:
  explicit NodeAdder(Graph& graph) : graph_(graph) {}

  NodeId add(Node node);
  NodeId view(NodeId x, View view);
  // `x` itself where it has this dtype.
  NodeId cast(NodeId x, DType dtype);
  NodeId unary(UnaryOp op, NodeId x);
  NodeId binary(BinaryOp op, NodeId a, NodeId b);
  NodeId select(NodeId condition, NodeId a, NodeId b);
  // `axes` ascend.
  NodeId reduce(ReduceOp op, NodeId x, std::vector<int> axes);
  NodeId scan(ScanOp op, NodeId x, int axis);
  // Elements of `data` at the values of `index` along the axis, and along others at expressions
  // over the loops of `index`, whose shape the result has.
  NodeId gather(NodeId data, int axis, NodeId index, const std::vector<Expr>& others);

  // int64: 0, 1, 2, ...
  NodeId iota(const Expr& length);
  // The row-major position of each element of the shape, int64.
  NodeId flat_positions(const Shape& shape);
  NodeId full(DType dtype, const Shape& shape, double value);
  // The operand in a shape that has the ascending axes `added` besides.
  NodeId widened(NodeId x, const Shape& shape, const std::vector<int>& added);

  // A copy: references into the graph do not outlive the next new node.
  Shape shape(NodeId x) const { return graph_.node(x).shape; }
  DType dtype(NodeId x) const { return graph_.node(x).dtype; }
  void output(NodeId x) { graph_.outputs.push_back({OutputKind::kUser, x, -1}); }

 private:
  Graph& graph_;
};

}  // namespace common
