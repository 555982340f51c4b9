// Builds HLIR graphs: infers types, shares equal nodes, composes views, folds small constants.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// Mistakes of the caller (shapes that do not match, bad dtypes) are bugs and abort: a front end
// checks a model's own claims before it calls. Not thread-safe.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::vector<SymbolRange> symbols = {});

  // Declares a new size symbol and returns it.
  Expr new_symbol(SymbolRange range);
  NodeId input(InputKind kind, DType dtype, Shape shape, std::string name);
  // All inputs of another graph, whose symbols this one has, in their order.
  std::vector<NodeId> inputs_like(const Graph& graph);
  // `data` is row-major and at most kMaxConstantBytes.
  NodeId constant(DType dtype, const std::vector<int64_t>& sizes, Bytes data);
  // A scalar of any dtype; integers are exact when given as int64.
  NodeId scalar(DType dtype, double value);
  NodeId scalar_int(DType dtype, int64_t value);
  // The scalar broadcast to a shape (a view).
  NodeId full(DType dtype, const Shape& shape, double value);
  NodeId full_int(DType dtype, const Shape& shape, int64_t value);
  // A size expression as a scalar tensor, computed from the shapes at run time.
  NodeId size_scalar(DType dtype, const Expr& value);
  NodeId iota(DType dtype, const Expr& length);

  NodeId view(NodeId x, const View& view);
  NodeId permute(NodeId x, const std::vector<int>& order);
  // Broadcasts; aborts when the shapes do not broadcast (see can_expand).
  NodeId expand(NodeId x, const Shape& shape);
  bool can_expand(NodeId x, const Shape& shape) const;
  NodeId reshape(NodeId x, const Shape& shape);
  NodeId slice(NodeId x, int axis, const Expr& start, const Expr& length, int64_t step = 1);
  NodeId pad(NodeId x, int axis, const Expr& before, const Expr& after, double fill = 0);
  NodeId unsqueeze(NodeId x, int axis);
  NodeId squeeze(NodeId x, int axis);
  // Joins along an axis; dtypes and the other sizes are equal.
  NodeId concat(const std::vector<NodeId>& parts, int axis);

  NodeId cast(NodeId x, DType dtype);
  NodeId unary(UnaryOp op, NodeId x);
  // Broadcasts both operands to their common shape; dtypes must be equal.
  NodeId binary(BinaryOp op, NodeId a, NodeId b);
  NodeId select(NodeId condition, NodeId a, NodeId b);  // broadcasts all three
  // See kPhilox in graph.h; broadcasts all four. `dtype` is int64 or float32.
  NodeId philox(DType dtype, NodeId seed, NodeId offset, NodeId subsequence, NodeId word);
  // keep: the reduced axes stay with size 1.
  NodeId reduce(ReduceOp op, NodeId x, std::vector<int> axes, bool keep = false);
  NodeId scan(ScanOp op, NodeId x, int axis);
  // One part of the transform along the last axis, see FourierAttr.
  NodeId fourier(NodeId real, std::optional<NodeId> imaginary, const FourierAttr& part);
  // See SortAttr.
  NodeId sort_indices(NodeId x, int axis, bool descending, int64_t count = 0);
  // See GatherAttr; `indices` are expanded to `shape`.
  NodeId gather(NodeId data, const std::vector<NodeId>& indices, const Shape& shape,
                std::vector<Coordinate> coordinates);
  // See ScatterAttr; `indices` are expanded to the updates' shape.
  NodeId scatter(ScatterMode mode, NodeId base, NodeId updates, const std::vector<NodeId>& indices,
                 std::vector<Coordinate> coordinates);
  // sum over k of a[..., m, k] * b[..., k, n] as multiply and sum, with leading axes broadcast;
  // a and b have at least two axes and one arithmetic dtype.
  NodeId matmul(NodeId a, NodeId b);
  // Appends a node as it is, sharing an equal one. For rewriters that copy graphs.
  NodeId raw(Node node);

  void output(NodeId node);
  void mutate(int input, NodeId node);
  // A kCheck; see OutputKind.
  void check(int input, NodeId node, const Expr& limit, bool wraps);
  // An output of the same kind for another node, for rewriters that copy graphs.
  void output_like(const GraphOutput& output, NodeId node);

  const Node& node(NodeId id) const { return graph_.node(id); }
  // A copy: references into the graph do not outlive the next new node.
  Shape shape(NodeId id) const { return graph_.node(id).shape; }
  DType dtype(NodeId id) const { return graph_.node(id).dtype; }
  int rank(NodeId id) const { return static_cast<int>(shape(id).size()); }
  const std::vector<SymbolRange>& symbols() const { return graph_.symbols; }
  Bounds bounds() const { return Bounds(graph_.symbols, {}); }
  // Simplified with the symbols' ranges.
  Expr simplify(const Expr& size) const { return bounds().simplify(size); }
  // The common broadcast shape of two; empty when there is none.
  std::optional<Shape> broadcast(const Shape& a, const Shape& b) const;
  // The value of a constant (seen through views) when all its elements are equal.
  std::optional<double> uniform_value(NodeId id) const;

  // Removes dead nodes and gives the graph away.
  Graph finish();

 private:
  NodeId add(Node node);
  Graph graph_;
  std::unordered_multimap<uint64_t, NodeId> known_;
};

// The value of a kConstant node when all its elements are equal; empty for complex numbers.
std::optional<double> uniform_constant(const Node& constant);

}  // namespace common
