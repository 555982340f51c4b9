// Gradients of the losses. The incoming gradient has the loss's shape: that of the input, or a
// scalar where the loss was reduced.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

constexpr int64_t kMeanReduction = 1;

bool is_mean(Context& c) { return c.integer("reduction", 1) == kMeanReduction; }

NodeId in_result(Context& c, std::string_view name) {
  return c.b.cast(c.tensor(name), float_dtype(c.out_dtype()));
}

NodeId is_less(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kLess, a, b); }

// Times the incoming gradient; of a mean each element has its share.
void times_share(Context& c, NodeId derivative) {
  NodeId out = mul(c, in_result(c, "grad_output"), derivative);
  if (is_mean(c)) {
    Expr elements = c.b.simplify(common::element_count(c.b.shape(c.tensor("self"))));
    out = div(c, out, c.b.size_scalar(c.b.dtype(out), elements));
  }
  c.result(c.b.expand(out, c.out_shape()));
}

NodeId difference(Context& c) { return sub(c, in_result(c, "self"), in_result(c, "target")); }

void mse_loss_backward(Context& c) { times_share(c, mul(c, difference(c), 2.0)); }

// The slope up to `edge`, where it is `limit`, and constant above.
void rounded_l1_backward(Context& c, double edge, double limit) {
  NodeId x = difference(c);
  NodeId outside = mul(c, c.b.unary(UnaryOp::kSign, x), limit);
  if (edge == 0) return times_share(c, outside);
  NodeId inside = limit == edge ? x : div(c, x, number_like(c, x, edge));
  NodeId near = is_less(c, c.b.unary(UnaryOp::kAbs, x), number_like(c, x, edge));
  times_share(c, c.b.select(near, inside, outside));
}

void binary_cross_entropy_backward(Context& c) {
  constexpr double kLeast = 1e-12;
  NodeId x = in_result(c, "self");
  NodeId spread = maximum(c, mul(c, sub(c, number_like(c, x, 1), x), x), kLeast);
  NodeId slope = div(c, difference(c), spread);
  if (c.has("weight")) slope = mul(c, slope, in_result(c, "weight"));
  times_share(c, slope);
}

void soft_margin_loss_backward(Context& c) {
  NodeId y = in_result(c, "target");
  NodeId away =
      c.b.unary(UnaryOp::kSigmoid, c.b.unary(UnaryOp::kNeg, mul(c, in_result(c, "self"), y)));
  times_share(c, mul(c, c.b.unary(UnaryOp::kNeg, y), away));
}

// ---- Class labels ----------------------------------------------------------------------------

// Labels with the class axis put back, so that they broadcast against x.
NodeId with_axis(Context& c, NodeId x, int axis) {
  return c.b.rank(x) == 0 ? x : c.b.unsqueeze(x, axis);
}

// Minus the class's weight at each place's own label, zero elsewhere.
void nll_loss_backward(Context& c) {
  NodeId x = in_result(c, "self");
  NodeId label = c.tensor("target");
  int rank = c.b.rank(x);
  if (rank == 0 || c.b.rank(label) != rank - 1) c.refuse("the labels have another rank");
  int axis = rank == 1 ? 0 : 1;
  Shape line(static_cast<size_t>(rank), Expr(1));
  line[static_cast<size_t>(axis)] = c.b.size(x, axis);
  NodeId column = positions(c, c.b.size(x, axis), axis, rank, c.b.dtype(label));
  int64_t ignored = c.integer("ignore_index", -100);
  c.check_index(label, {c.b.size(x, axis), false, ignored});
  NodeId skipped = c.b.binary(BinaryOp::kEqual, label, c.b.scalar_int(c.b.dtype(label), ignored));
  NodeId gradient = in_result(c, "grad_output");
  if (is_mean(c)) gradient = div(c, gradient, in_result(c, "total_weight"));
  gradient = c.b.unary(UnaryOp::kNeg, gradient);
  if (c.b.rank(gradient) != rank) gradient = with_axis(c, gradient, axis);
  if (c.has("weight")) gradient = mul(c, gradient, c.b.reshape(in_result(c, "weight"), line));
  auto placed = [&](NodeId v) { return c.b.unsqueeze(v, axis); };
  NodeId own = c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kEqual, column, placed(label)),
                          logical_not(c, placed(skipped)));
  c.result(c.b.expand(c.b.select(own, gradient, number_like(c, gradient, 0)), c.out_shape()));
}

// A gradient of one number a row, as a column.
NodeId of_rows(Context& c, const Expr& rows) {
  NodeId g = in_result(c, "grad_output");
  if (c.b.rank(g) == 0) return g;
  return c.b.reshape(g, {rows, 1});
}

// Each class's margin against the label's: the slope of the one is minus that of all the others.
void multi_margin_loss_backward(Context& c) {
  NodeId x = in_result(c, "self");
  Sizes given = c.b.shape(x);
  Expr rows = given.size() == 2 ? given[0] : Expr(1);
  Expr classes = given.empty() ? Expr(1) : given.back();
  x = c.b.reshape(x, {rows, classes});
  NodeId label = c.b.reshape(c.b.cast(c.tensor("target"), DType::kInt64), {rows, 1});
  NodeId own = c.b.binary(BinaryOp::kEqual, positions(c, classes, 1, 2), label);
  NodeId zero = number_like(c, x, 0);
  NodeId score = c.b.reduce(ReduceOp::kSum, c.b.select(own, x, zero), {1}, true);
  NodeId gap = add(c, sub(c, x, score), c.number("margin", 1));
  NodeId slope = c.number("p", 1) == 2 ? mul(c, gap, 2.0) : number_like(c, gap, 1);
  NodeId counts = c.b.binary(BinaryOp::kAnd, is_less(c, zero, gap), logical_not(c, own));
  slope = div(c, c.b.select(counts, slope, zero), c.b.size_scalar(c.b.dtype(x), classes));
  if (c.has("weight")) {
    NodeId weights = c.b.reshape(in_result(c, "weight"), {1, classes});
    slope = mul(c, slope, c.b.reduce(ReduceOp::kSum, c.b.select(own, weights, zero), {1}, true));
  }
  NodeId total = c.b.reduce(ReduceOp::kSum, slope, {1}, true);
  NodeId out = mul(c, c.b.select(own, c.b.unary(UnaryOp::kNeg, total), slope), of_rows(c, rows));
  if (is_mean(c)) out = div(c, out, c.b.size_scalar(c.b.dtype(out), rows));
  c.result(c.b.reshape(out, c.out_shape()));
}

// `is_target` marks the classes that a row lists; every listed class pushes against every other.
void multilabel_margin_loss_backward(Context& c) {
  NodeId x = in_result(c, "self");
  Sizes given = c.b.shape(x);
  Expr rows = given.size() == 2 ? given[0] : Expr(1);
  Expr classes = given.empty() ? Expr(1) : given.back();
  Shape matrix = {rows, classes};
  x = c.b.reshape(x, matrix);
  NodeId listed = truth(c, c.b.reshape(c.tensor("is_target"), matrix));
  // (row, listed class, other class)
  NodeId gap = add(c, sub(c, c.b.unsqueeze(x, 1), c.b.unsqueeze(x, 2)), 1.0);
  NodeId counts = c.b.binary(BinaryOp::kAnd, c.b.unsqueeze(listed, 2),
                             c.b.unsqueeze(logical_not(c, listed), 1));
  counts = c.b.binary(BinaryOp::kAnd, counts, is_less(c, number_like(c, gap, 0), gap));
  NodeId pushes = c.b.cast(counts, c.b.dtype(x));
  NodeId out =
      sub(c, c.b.reduce(ReduceOp::kSum, pushes, {1}), c.b.reduce(ReduceOp::kSum, pushes, {2}));
  out = mul(c, div(c, out, c.b.size_scalar(c.b.dtype(x), classes)), of_rows(c, rows));
  if (is_mean(c)) out = div(c, out, c.b.size_scalar(c.b.dtype(out), rows));
  c.result(c.b.reshape(out, c.out_shape()));
}

}  // namespace

void add_loss_backward_operators(OperatorTable* t) {
  t->add("aten.mse_loss_backward", mse_loss_backward);
  t->add("aten.smooth_l1_loss_backward",
         [](Context& c) { rounded_l1_backward(c, c.number("beta", 1), 1); });
  t->add("aten.huber_loss_backward", [](Context& c) {
    double delta = c.number("delta", 1);
    rounded_l1_backward(c, delta, delta);
  });
  t->add("aten.binary_cross_entropy_backward", binary_cross_entropy_backward);
  t->add("aten.soft_margin_loss_backward", soft_margin_loss_backward);
  t->add("aten.nll_loss_backward", nll_loss_backward);
  t->add("aten.nll_loss2d_backward", nll_loss_backward);
  t->add("aten.multi_margin_loss_backward", multi_margin_loss_backward);
  t->add("aten.multilabel_margin_loss_backward", multilabel_margin_loss_backward);
}

}  // namespace clients
