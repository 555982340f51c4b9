#include "clients/pt2/aten/checked_builder.h"

#include <algorithm>

#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;

// Elements an axis or a whole tensor may have; products of sizes stay far from overflow.
constexpr int64_t kMaxElements = int64_t{1} << 48;

bool is_arithmetic(DType d) { return !common::is_half(d) && d != DType::kComplex64; }

void need(bool fits, std::string_view what) {
  if (!fits) refuse_operands(std::string(what));
}

void check_sizes(const Shape& shape) {
  int64_t total = 1;
  for (const Expr& size : shape) {
    if (!size.is_constant()) continue;
    int64_t n = size.constant();
    need(n >= 0 && n <= kMaxElements, "a size is negative or absurdly large");
    if (n > 0) {
      need(!__builtin_mul_overflow(total, n, &total) && total <= kMaxElements,
           "the tensor is absurdly large");
    }
  }
}

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& s) { return s.is_constant(0); });
}

}  // namespace

void refuse_operands(std::string message) {
  throw Refusal{common::Code::kUnsupported, std::move(message)};
}

Sizes Sizes::last(size_t count) const {
  if (count > size()) refuse_operands("a tensor has fewer axes than the operator takes");
  return Shape(end() - static_cast<ptrdiff_t>(count), end());
}
Sizes Sizes::without_last(size_t count) const {
  if (count > size()) refuse_operands("a tensor has fewer axes than the operator takes");
  return Shape(begin(), end() - static_cast<ptrdiff_t>(count));
}

void Builder::check_axis(NodeId x, int axis, int extra) const {
  if (axis < 0 || axis >= rank(x) + extra) {
    refuse_operands(cat("axis ", axis, " of a tensor with ", rank(x), " axes"));
  }
}

Expr Builder::size(NodeId id, int axis) const {
  check_axis(id, axis);
  return shape(id)[static_cast<size_t>(axis)];
}

NodeId Builder::iota(DType d, const Expr& length) {
  need(is_arithmetic(d) && d != DType::kBool, "positions of this dtype are not supported");
  check_sizes({length});
  return GraphBuilder::iota(d, length);
}

NodeId Builder::view(NodeId x, const View& view) {
  Shape from = shape(x);
  need(view.index.size() == from.size(), "a view has another rank than its operand");
  check_sizes(view.shape);
  auto check_scope = [&view](const Expr& expr) {
    expr.visit_vars([&view](common::Var var) {
      bool index = var.kind == common::Var::Kind::kIndex;
      need(!index || var.id < static_cast<int>(view.shape.size()),
           "a view has another rank than its result");
    });
  };
  for (const Expr& index : view.index) check_scope(index);
  for (const common::Validity& check : view.valid) {
    check_scope(check.value);
    check_scope(check.bound);
  }
  // An affine index takes its least and greatest value at corners, so a violation is certain.
  bool certain = view.valid.empty() && !is_empty(view.shape);
  common::Bounds loop = common::loop_bounds(view.shape, symbols());
  for (size_t k = 0; certain && k < from.size(); ++k) {
    auto affine = common::affine_form(view.index[k], static_cast<int>(view.shape.size()));
    if (!affine || !from[k].is_constant()) continue;
    int64_t low = loop.lower(view.index[k]);
    int64_t high = loop.upper(view.index[k]);
    bool constant =
        affine->offset.is_constant() && std::all_of(view.shape.begin(), view.shape.end(),
                                                    [](const Expr& s) { return s.is_constant(); });
    need(!constant || (low >= 0 && high < from[k].constant()), "it reads outside of its operand");
  }
  return GraphBuilder::view(x, view);
}

NodeId Builder::permute(NodeId x, const std::vector<int>& order) {
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool fits = static_cast<int>(order.size()) == rank(x);
  for (size_t k = 0; fits && k < sorted.size(); ++k) fits = sorted[k] == static_cast<int>(k);
  need(fits, "the permutation is malformed");
  return GraphBuilder::permute(x, order);
}

NodeId Builder::expand(NodeId x, const Shape& wanted) {
  check_sizes(wanted);
  if (!can_expand(x, wanted)) {
    refuse_operands(cat("the shape ", common::shape_text(shape(x)), " cannot be expanded to ",
                        common::shape_text(wanted)));
  }
  return GraphBuilder::expand(x, wanted);
}

NodeId Builder::reshape(NodeId x, const Shape& wanted) {
  check_sizes(wanted);
  Expr difference = simplify(common::element_count(shape(x)) - common::element_count(wanted));
  need(!difference.is_constant() || difference.is_constant(0), "the element counts differ");
  return GraphBuilder::reshape(x, wanted);
}

NodeId Builder::slice(NodeId x, int axis, const Expr& start, const Expr& length, int64_t step) {
  check_axis(x, axis);
  return view(x, common::view_slice(shape(x), axis, start, length, step));
}

NodeId Builder::pad(NodeId x, int axis, const Expr& before, const Expr& after, double fill) {
  check_axis(x, axis);
  return view(x, common::view_pad(shape(x), axis, before, after, fill));
}

NodeId Builder::unsqueeze(NodeId x, int axis) {
  check_axis(x, axis, 1);
  return GraphBuilder::unsqueeze(x, axis);
}

NodeId Builder::squeeze(NodeId x, int axis) {
  need(size(x, axis).is_constant(1), "an axis to drop has another size than 1");
  return GraphBuilder::squeeze(x, axis);
}

NodeId Builder::concat(const std::vector<NodeId>& parts, int axis) {
  need(!parts.empty(), "nothing to join");
  check_axis(parts[0], axis);
  Expr total = 0;
  for (NodeId part : parts) {
    bool fits = rank(part) == rank(parts[0]) && dtype(part) == dtype(parts[0]);
    for (int k = 0; fits && k < rank(part); ++k) {
      fits = k == axis || size(part, k) == size(parts[0], k);
    }
    need(fits, "the joined tensors' shapes or dtypes differ");
    total += size(part, axis);
  }
  check_sizes({total});
  return GraphBuilder::concat(parts, axis);
}

NodeId Builder::unary(UnaryOp op, NodeId x) {
  DType d = dtype(x);
  bool fits = is_arithmetic(d);
  if (op == UnaryOp::kNot) {
    fits = fits && !common::is_float(d);
  } else if (op == UnaryOp::kNeg || op == UnaryOp::kAbs || op == UnaryOp::kSign) {
    fits = fits && d != DType::kBool;
  } else {
    fits = fits && common::is_float(d);
  }
  if (!fits) refuse_operands(cat("it does not take ", common::dtype_name(d)));
  return GraphBuilder::unary(op, x);
}

NodeId Builder::binary(BinaryOp op, NodeId a, NodeId b) {
  DType d = dtype(a);
  bool bitwise = op >= BinaryOp::kAnd && op <= BinaryOp::kShr;
  bool real_only = op == BinaryOp::kAtan2 || op == BinaryOp::kCopysign || op == BinaryOp::kHypot ||
                   op == BinaryOp::kNextafter;
  bool takes_bool =
      bitwise || common::is_comparison(op) || op == BinaryOp::kMin || op == BinaryOp::kMax;
  bool fits = d == dtype(b) && is_arithmetic(d) && !(bitwise && common::is_float(d)) &&
              !(real_only && !common::is_float(d)) && (d != DType::kBool || takes_bool);
  if (!fits) {
    refuse_operands(
        cat("it does not take ", common::dtype_name(d), " and ", common::dtype_name(dtype(b))));
  }
  auto joined = broadcast(shape(a), shape(b));
  need(joined.has_value(), "the operands do not broadcast");
  check_sizes(*joined);
  return GraphBuilder::binary(op, a, b);
}

NodeId Builder::select(NodeId condition, NodeId a, NodeId b) {
  need(dtype(condition) == DType::kBool && dtype(a) == dtype(b), "the dtypes do not fit");
  auto branches = broadcast(shape(a), shape(b));
  auto all = branches ? broadcast(*branches, shape(condition)) : std::nullopt;
  need(all.has_value(), "the operands do not broadcast");
  check_sizes(*all);
  return GraphBuilder::select(condition, a, b);
}

NodeId Builder::reduce(ReduceOp op, NodeId x, std::vector<int> axes, bool keep) {
  for (int axis : axes) check_axis(x, axis);
  std::sort(axes.begin(), axes.end());
  need(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), "an axis is named twice");
  DType d = dtype(x);
  bool logical = op == ReduceOp::kAny || op == ReduceOp::kAll;
  bool position = op == ReduceOp::kArgmax || op == ReduceOp::kArgmin;
  need(is_arithmetic(d) && (position || logical == (d == DType::kBool)),
       "it does not take this dtype");
  need(!position || axes.size() == 1, "it takes one axis");
  return GraphBuilder::reduce(op, x, std::move(axes), keep);
}

NodeId Builder::scan(ScanOp op, NodeId x, int axis) {
  check_axis(x, axis);
  DType d = dtype(x);
  need(is_arithmetic(d) && d != DType::kBool, "it does not take this dtype");
  need(op != ScanOp::kLogSumExp || common::is_float(d), "it does not take this dtype");
  return GraphBuilder::scan(op, x, axis);
}

NodeId Builder::fourier(NodeId real, std::optional<NodeId> imaginary,
                        const common::FourierAttr& part) {
  DType d = dtype(real);
  need(d == DType::kFloat32 || d == DType::kFloat64, "it does not take this dtype");
  if (imaginary) need(dtype(*imaginary) == d, "the dtypes do not fit");
  int64_t points = size(real, rank(real) - 1).constant();
  need(part.count >= 1 && part.count <= points, "there are no such frequencies");
  if (imaginary) imaginary = expand(*imaginary, shape(real));
  return GraphBuilder::fourier(real, imaginary, part);
}

NodeId Builder::sort_indices(NodeId x, int axis, bool descending) {
  check_axis(x, axis);
  return GraphBuilder::sort_indices(x, axis, descending);
}

void Builder::check_coordinates(const std::vector<common::Coordinate>& coordinates, NodeId data,
                                const std::vector<NodeId>& indices, const Shape& places) const {
  need(static_cast<int>(coordinates.size()) == rank(data), "an index has another rank");
  for (const common::Coordinate& c : coordinates) {
    bool fits = c.slot < static_cast<int>(indices.size());
    c.expr.visit_vars([&](common::Var var) {
      if (var.kind == common::Var::Kind::kIndex) {
        fits = fits && var.id < static_cast<int>(places.size());
      }
    });
    need(fits, "an index has another rank");
  }
  for (NodeId index : indices) {
    need(common::is_integer(dtype(index)), "indices must be integers");
    need(can_expand(index, places), "an index has another shape");
  }
}

NodeId Builder::gather(NodeId data, const std::vector<NodeId>& indices, const Shape& wanted,
                       std::vector<common::Coordinate> coordinates) {
  check_sizes(wanted);
  check_coordinates(coordinates, data, indices, wanted);
  need(!indices.empty() || wanted.empty(), "no index is given");
  return GraphBuilder::gather(data, indices, wanted, std::move(coordinates));
}

NodeId Builder::scatter(ScatterMode mode, NodeId base, NodeId updates,
                        const std::vector<NodeId>& indices,
                        std::vector<common::Coordinate> coordinates) {
  check_coordinates(coordinates, base, indices, shape(updates));
  need(dtype(base) == dtype(updates), "the updates have another dtype");
  need(mode == ScatterMode::kAssign || is_arithmetic(dtype(base)), "it does not take this dtype");
  return GraphBuilder::scatter(mode, base, updates, indices, std::move(coordinates));
}

NodeId Builder::matmul(NodeId a, NodeId b) {
  Shape sa = shape(a);
  Shape sb = shape(b);
  need(sa.size() >= 2 && sb.size() >= 2 && dtype(a) == dtype(b) && is_arithmetic(dtype(a)) &&
           dtype(a) != DType::kBool,
       "the operands are no matrices of one dtype");
  bool fits = sa.back() == sb[sb.size() - 2] &&
              broadcast(Shape(sa.begin(), sa.end() - 2), Shape(sb.begin(), sb.end() - 2));
  if (!fits) {
    refuse_operands(
        cat("the shapes ", common::shape_text(sa), " and ", common::shape_text(sb), " do not fit"));
  }
  return GraphBuilder::matmul(a, b);
}

std::vector<NodeId> Builder::loop(int64_t trip_count, common::Graph body,
                                  const std::vector<NodeId>& initial,
                                  const std::vector<NodeId>& invariant) {
  std::vector<NodeId> operands = initial;
  operands.insert(operands.end(), invariant.begin(), invariant.end());
  need(trip_count >= 1 && !initial.empty() && body.outputs.size() == initial.size() &&
           body.inputs.size() == operands.size() && body.symbols == symbols(),
       "a loop's body has another signature");
  for (size_t k = 0; k < operands.size(); ++k) {
    const common::GraphInput& input = body.inputs[k];
    need(input.dtype == dtype(operands[k]) && input.shape == shape(operands[k]),
         "a loop's body takes other operands");
    if (k >= initial.size()) continue;
    const common::Node& next = body.node(body.outputs[k].node);
    need(next.dtype == input.dtype && next.shape == input.shape, "a loop changes what it carries");
  }
  common::LoopAttr attr;
  attr.trip_count = trip_count;
  attr.carried = static_cast<int>(initial.size());
  attr.invariant = static_cast<int>(invariant.size());
  attr.body = std::make_shared<const common::Graph>(std::move(body));
  NodeId node = raw({common::Op::kLoop, dtype(initial[0]), {}, operands, std::move(attr)});
  std::vector<NodeId> results;
  for (size_t k = 0; k < initial.size(); ++k) {
    common::LoopResultAttr result{static_cast<int>(k)};
    results.push_back(
        raw({common::Op::kLoopResult, dtype(initial[k]), shape(initial[k]), {node}, result}));
  }
  return results;
}

}  // namespace clients
