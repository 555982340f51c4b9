// The graph builder for models that may claim anything: what the plain builder takes for a bug of
// its caller is refused here.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/builder.h"

namespace clients {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::NodeId;
using common::ReduceOp;
using common::ScanOp;
using common::ScatterMode;
using common::Shape;
using common::UnaryOp;
using common::View;

// Thrown where a translator cannot go on, many calls deep inside an expression; translate()
// catches it, adds the operator and its source line, and returns it. Never leaves clients/pt2.
struct Refusal {
  common::Code code = common::Code::kUnsupported;
  std::string message;
};
[[noreturn]] void refuse_operands(std::string message);

// Sizes that refuse an axis which isn't there.
class Sizes : public Shape {
 public:
  using Shape::Shape;
  Sizes(Shape shape) : Shape(std::move(shape)) {}  // NOLINT: implicit by design
  Expr& operator[](size_t axis) { return data()[checked(axis)]; }
  const Expr& operator[](size_t axis) const { return data()[checked(axis)]; }
  Expr& back() { return (*this)[size() - 1]; }
  const Expr& back() const { return (*this)[size() - 1]; }
  // The last `count` axes, or all but them.
  Sizes last(size_t count) const;
  Sizes without_last(size_t count) const;

 private:
  size_t checked(size_t axis) const {
    if (axis >= size()) refuse_operands("a tensor has fewer axes than the operator takes");
    return axis;
  }
};

// As GraphBuilder, but throws Refusal for shapes and dtypes that do not fit.
class Builder : private common::GraphBuilder {
 public:
  using common::GraphBuilder::bounds;
  using common::GraphBuilder::broadcast;
  using common::GraphBuilder::can_expand;
  using common::GraphBuilder::cast;
  using common::GraphBuilder::check;
  using common::GraphBuilder::constant;
  using common::GraphBuilder::dtype;
  using common::GraphBuilder::finish;
  using common::GraphBuilder::full;
  using common::GraphBuilder::full_int;
  using common::GraphBuilder::input;
  using common::GraphBuilder::mutate;
  using common::GraphBuilder::new_symbol;
  using common::GraphBuilder::node;
  using common::GraphBuilder::output;
  using common::GraphBuilder::philox;
  using common::GraphBuilder::rank;
  using common::GraphBuilder::scalar;
  using common::GraphBuilder::scalar_int;
  using common::GraphBuilder::simplify;
  using common::GraphBuilder::size_scalar;
  using common::GraphBuilder::symbols;
  using common::GraphBuilder::uniform_value;

  Sizes shape(NodeId id) const { return common::GraphBuilder::shape(id); }
  // The size of one axis; refuses an axis that isn't there.
  Expr size(NodeId id, int axis) const;

  NodeId iota(DType dtype, const Expr& length);
  // Also refuses a view that certainly reads outside of its operand.
  NodeId view(NodeId x, const View& view);
  NodeId permute(NodeId x, const std::vector<int>& order);
  NodeId expand(NodeId x, const Shape& shape);
  NodeId reshape(NodeId x, const Shape& shape);
  NodeId slice(NodeId x, int axis, const Expr& start, const Expr& length, int64_t step = 1);
  NodeId pad(NodeId x, int axis, const Expr& before, const Expr& after, double fill = 0);
  NodeId unsqueeze(NodeId x, int axis);
  NodeId squeeze(NodeId x, int axis);
  NodeId concat(const std::vector<NodeId>& parts, int axis);
  NodeId unary(UnaryOp op, NodeId x);
  NodeId binary(BinaryOp op, NodeId a, NodeId b);
  NodeId select(NodeId condition, NodeId a, NodeId b);
  NodeId reduce(ReduceOp op, NodeId x, std::vector<int> axes, bool keep = false);
  NodeId scan(ScanOp op, NodeId x, int axis);
  NodeId fourier(NodeId real, std::optional<NodeId> imaginary, const common::FourierAttr& part);
  NodeId sort_indices(NodeId x, int axis, bool descending);
  NodeId gather(NodeId data, const std::vector<NodeId>& indices, const Shape& shape,
                std::vector<common::Coordinate> coordinates);
  NodeId scatter(ScatterMode mode, NodeId base, NodeId updates, const std::vector<NodeId>& indices,
                 std::vector<common::Coordinate> coordinates);
  NodeId matmul(NodeId a, NodeId b);
  // The final values of a loop that carries `initial` (see LoopAttr); refuses a body of another
  // signature.
  std::vector<NodeId> loop(int64_t trip_count, common::Graph body,
                           const std::vector<NodeId>& initial,
                           const std::vector<NodeId>& invariant);

 private:
  void check_axis(NodeId x, int axis, int extra = 0) const;
  void check_coordinates(const std::vector<common::Coordinate>& coordinates, NodeId data,
                         const std::vector<NodeId>& indices, const Shape& places) const;
};

}  // namespace clients
