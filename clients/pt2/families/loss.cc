// Losses, and the distances and similarities they are made of. In half precision PyTorch rounds
// after each of their steps, so `rounded` and the order of the steps are part of their definitions.
#include <algorithm>
#include <array>
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

using common::Coordinate;

// PyTorch's Reduction, as the schema passes it.
enum class Reduction { kNone = 0, kMean = 1, kSum = 2 };

Reduction reduction_of(Context& c) {
  int64_t value = c.integer("reduction", 1);
  if (value < 0 || value > 2) c.refuse("unknown reduction");
  return static_cast<Reduction>(value);
}

std::vector<int> all_axes(Context& c, NodeId x) {
  std::vector<int> axes;
  for (int k = 0; k < c.b.rank(x); ++k) axes.push_back(k);
  return axes;
}

NodeId total(Context& c, NodeId x) { return c.b.reduce(ReduceOp::kSum, x, all_axes(c, x)); }

NodeId reduced(Context& c, NodeId x) {
  Reduction reduction = reduction_of(c);
  if (reduction == Reduction::kNone) return x;
  x = rounded(c, x);
  if (reduction == Reduction::kSum) return total(c, x);
  return div(c, total(c, x), count(c, x, all_axes(c, x), c.b.dtype(x)));
}

NodeId absolute(Context& c, NodeId x) { return c.b.unary(UnaryOp::kAbs, x); }
NodeId negated(Context& c, NodeId x) { return c.b.unary(UnaryOp::kNeg, x); }
NodeId log_of(Context& c, NodeId x) { return c.b.unary(UnaryOp::kLog, x); }
NodeId exp_of(Context& c, NodeId x) { return c.b.unary(UnaryOp::kExp, x); }
NodeId is_less(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kLess, a, b); }
// A number that is added or subtracted.
NodeId term(Context& c, NodeId x, double value) {
  return number_like(c, x, rounded_number(c.out_dtype(), value));
}
NodeId from_number(Context& c, double a, NodeId x) { return sub(c, term(c, x, a), x); }

// Arguments of the arithmetic, cast to where it is done.
NodeId real(Context& c, std::string_view name) {
  DType d = float_dtype(c.out_dtype());
  return c.b.cast(c.tensor(name), d);
}

NodeId difference(Context& c) { return rounded(c, sub(c, real(c, "self"), real(c, "target"))); }

void mse_loss(Context& c) {
  NodeId d = difference(c);
  c.result(reduced(c, mul(c, d, d)));
}

void l1_loss(Context& c) { c.result(reduced(c, absolute(c, difference(c)))); }

// Quadratic up to `edge`, linear above: smooth_l1 divides by the edge, huber doesn't. PyTorch's
// kernels compute in float32 and round once: smooth_l1 of bfloat16, huber of float16.
void rounded_l1(Context& c, double edge, bool divided) {
  bool once = c.out_dtype() == (divided ? DType::kBfloat16 : DType::kFloat16);
  auto step = [&](NodeId x) { return once ? x : rounded(c, x); };
  NodeId size = absolute(c, step(sub(c, real(c, "self"), real(c, "target"))));
  if (divided && edge == 0) return c.result(reduced(c, size));
  double limit = once ? edge : rounded_number(c.out_dtype(), edge);
  NodeId square = step(mul(c, step(mul(c, size, 0.5)), size));
  NodeId line = step(add(c, size, -0.5 * limit));
  if (divided) {
    square = div(c, square, number_like(c, square, limit));
  } else {
    line = mul(c, line, limit);
  }
  NodeId near = divided ? less(c, size, limit)
                        : c.b.binary(BinaryOp::kLessEqual, size, number_like(c, size, limit));
  c.result(reduced(c, c.b.select(near, square, line)));
}

NodeId weighted(Context& c, NodeId x) {
  return c.has("weight") ? mul(c, rounded(c, x), real(c, "weight")) : x;
}

void binary_cross_entropy(Context& c) {
  NodeId x = real(c, "self");
  NodeId y = real(c, "target");
  // PyTorch keeps logarithms of zero finite.
  NodeId on = maximum(c, rounded(c, log_of(c, x)), -100);
  NodeId off = maximum(c, rounded(c, c.b.unary(UnaryOp::kLog1p, negated(c, x))), -100);
  NodeId missing = rounded(c, mul(c, rounded(c, add(c, y, -1.0)), off));
  NodeId loss = sub(c, missing, rounded(c, mul(c, y, on)));
  c.result(reduced(c, weighted(c, loss)));
}

void binary_cross_entropy_with_logits(Context& c) {
  NodeId x = real(c, "self");
  NodeId y = real(c, "target");
  // log(1 + exp(-x)) without overflow.
  NodeId tail = c.b.unary(UnaryOp::kLog1p, exp_of(c, negated(c, absolute(c, x))));
  NodeId soft = rounded(c, add(c, maximum(c, negated(c, x), 0), tail));
  if (c.has("pos_weight")) {
    NodeId past_one = rounded(c, add(c, real(c, "pos_weight"), -1.0));
    NodeId on = rounded(c, add(c, rounded(c, mul(c, past_one, y)), 1.0));
    soft = rounded(c, mul(c, on, soft));
  }
  NodeId off = rounded(c, mul(c, rounded(c, from_number(c, 1, y)), x));
  c.result(reduced(c, weighted(c, rounded(c, add(c, off, soft)))));
}

void kl_div(Context& c) {
  NodeId x = real(c, "self");
  NodeId y = real(c, "target");
  if (c.flag("log_target", false)) {
    return c.result(reduced(c, mul(c, rounded(c, exp_of(c, y)), rounded(c, sub(c, y, x)))));
  }
  NodeId entropy = rounded(c, mul(c, y, rounded(c, log_of(c, y))));
  NodeId zero = c.b.binary(BinaryOp::kEqual, y, number_like(c, y, 0));
  entropy = c.b.select(zero, number_like(c, y, 0), entropy);
  c.result(reduced(c, sub(c, entropy, rounded(c, mul(c, y, x)))));
}

// ---- Class labels ----------------------------------------------------------------------------

struct Picked {
  NodeId loss = 0;     // of each place; zero where the label is to be ignored
  NodeId weight = 0;   // of each place
  NodeId skipped = 0;  // whether the label is to be ignored
};

// -x[label] along the class axis, weighted by class.
Picked pick_labels(Context& c, NodeId log_probability, NodeId label, int axis) {
  DType d = c.b.dtype(log_probability);
  int64_t ignored = c.integer("ignore_index", -100);
  NodeId skip = c.b.binary(BinaryOp::kEqual, label, c.b.scalar_int(c.b.dtype(label), ignored));
  NodeId place = c.b.select(skip, c.b.scalar_int(c.b.dtype(label), 0), label);
  std::vector<Coordinate> where;
  int next = 0;
  for (int k = 0; k < c.b.rank(log_probability); ++k) {
    where.push_back(k == axis ? Coordinate{0, {}} : Coordinate{-1, Expr::index(next++)});
  }
  if (next != c.b.rank(label)) c.refuse("the labels have another rank");
  c.check_index(label, {c.b.size(log_probability, axis), false, ignored});
  NodeId value = c.b.gather(log_probability, {place}, c.b.shape(label), where);
  NodeId weight = c.b.full(d, c.b.shape(label), 1);
  if (c.has("weight")) {
    NodeId weights = c.b.cast(c.tensor("weight"), d);
    if (c.b.rank(weights) != 1) c.refuse("the weights are no vector");
    weight = c.b.gather(weights, {place}, c.b.shape(label), {Coordinate{0, {}}});
  }
  NodeId zero = number_like(c, value, 0);
  weight = c.b.select(skip, zero, weight);
  return {c.b.select(skip, zero, rounded(c, mul(c, negated(c, value), weight))), weight, skip};
}

// The sum of losses or weights over all places. In half precision PyTorch rounds after each
// addition, in the order of cascade_sum: 16 partial sums of a level make one of the next, and the
// first place, alone, is moved to the last level. Of many places the sum is rounded once.
NodeId label_total(Context& c, NodeId x) {
  constexpr int64_t kMaxRounded = 64;
  constexpr int kLevels = 8, kLevelBits = 4;
  Expr count = c.b.simplify(common::element_count(c.b.shape(x)));
  bool few = count.is_constant() && count.constant() > 0 && count.constant() <= kMaxRounded;
  if (!few || !common::is_half(c.out_dtype())) return total(c, x);
  NodeId line = flatten(c, x);
  std::array<std::optional<NodeId>, kLevels> partial;
  auto add_to = [&](std::optional<NodeId>& sum, NodeId value) {
    sum = sum ? rounded(c, add(c, *sum, value)) : value;
  };
  for (int64_t k = 0; k < count.constant(); ++k) {
    add_to(partial[0], c.b.squeeze(c.b.slice(line, 0, k, 1), 0));
    for (int level = 0; level + 1 < kLevels && (k >> (level * kLevelBits) & 15) == 0; ++level) {
      add_to(partial[static_cast<size_t>(level) + 1], *partial[static_cast<size_t>(level)]);
      partial[static_cast<size_t>(level)].reset();
    }
  }
  std::optional<NodeId> sum;
  for (const std::optional<NodeId>& level : partial) {
    if (level) add_to(sum, *level);
  }
  return *sum;
}

int class_axis(Context& c, NodeId x) {
  if (c.b.rank(x) == 0) c.refuse("it takes a tensor with a class axis");
  return c.b.rank(x) == 1 ? 0 : 1;
}

// Without weights it is the number of places that count.
NodeId weight_total(Context& c, const Picked& picked) {
  if (c.has("weight")) return label_total(c, picked.weight);
  return rounded(c, total(c, picked.weight));
}

// The loss, and the sum of the weights it was made with.
void nll_loss(Context& c) {
  NodeId x = real(c, "self");
  Picked picked = pick_labels(c, x, c.tensor("target"), class_axis(c, x));
  NodeId weights = weight_total(c, picked);
  Reduction reduction = reduction_of(c);
  NodeId loss = picked.loss;
  if (reduction != Reduction::kNone) loss = label_total(c, loss);
  if (reduction == Reduction::kMean) loss = div(c, loss, weights);
  c.result(loss);
  if (!c.wants_output(1)) return;
  c.result(reduction == Reduction::kNone ? number_like(c, x, 0) : weights, 1);
}

// Labels that are probabilities of every class.
void soft_cross_entropy(Context& c, NodeId log_probability, int axis, double smoothing) {
  NodeId y = real(c, "target");
  if (smoothing > 0) {
    NodeId classes = c.b.size_scalar(c.b.dtype(y), c.b.size(log_probability, axis));
    NodeId share = rounded(c, div(c, number_like(c, y, smoothing), classes));
    y = rounded(c, add(c, rounded(c, mul(c, y, 1 - smoothing)), share));
  }
  NodeId product = rounded(c, mul(c, log_probability, y));
  if (c.has("weight")) {
    NodeId weights = c.b.cast(c.tensor("weight"), c.b.dtype(y));
    Shape line(static_cast<size_t>(c.b.rank(y)), Expr(1));
    line[static_cast<size_t>(axis)] = c.b.size(y, axis);
    product = rounded(c, mul(c, product, c.b.reshape(weights, line)));
  }
  Reduction reduction = reduction_of(c);
  if (reduction == Reduction::kNone) {
    return c.result(negated(c, c.b.reduce(ReduceOp::kSum, product, {axis})));
  }
  NodeId sum = rounded(c, negated(c, total(c, product)));
  if (reduction == Reduction::kMean) {
    std::vector<int> others = all_axes(c, product);
    std::erase(others, axis);
    sum = div(c, sum, count(c, product, others, c.b.dtype(product)));
  }
  c.result(sum);
}

// The loss against equal shares of every class, by its weight, where the label counts.
NodeId smooth_loss(Context& c, NodeId log_probability, const Picked& picked, int axis) {
  NodeId every = log_probability;
  DType d = c.b.dtype(every);
  if (c.has("weight")) {
    Shape line(static_cast<size_t>(c.b.rank(every)), Expr(1));
    line[static_cast<size_t>(axis)] = c.b.size(every, axis);
    every = rounded(c, mul(c, every, c.b.reshape(c.b.cast(c.tensor("weight"), d), line)));
  }
  NodeId loss = rounded(c, negated(c, c.b.reduce(ReduceOp::kSum, every, {axis})));
  loss = c.b.select(picked.skipped, number_like(c, loss, 0), loss);
  Reduction reduction = reduction_of(c);
  if (reduction == Reduction::kNone) return loss;
  loss = rounded(c, total(c, loss));
  if (reduction == Reduction::kSum) return loss;
  return rounded(c, div(c, loss, rounded(c, total(c, picked.weight))));
}

void cross_entropy(Context& c) {
  NodeId x = real(c, "self");
  int axis = class_axis(c, x);
  NodeId log_probability = rounded(c, log_softmax(c, x, axis));
  double smoothing = c.number("label_smoothing", 0);
  NodeId target = c.tensor("target");
  if (common::is_float(c.b.dtype(target))) {
    return soft_cross_entropy(c, log_probability, axis, smoothing);
  }
  Picked picked = pick_labels(c, log_probability, target, axis);
  Reduction reduction = reduction_of(c);
  NodeId loss = picked.loss;
  if (reduction != Reduction::kNone) loss = label_total(c, loss);
  if (reduction == Reduction::kMean) loss = rounded(c, div(c, loss, weight_total(c, picked)));
  if (smoothing > 0) {
    NodeId classes = c.b.size_scalar(c.b.dtype(x), c.b.size(x, axis));
    NodeId share = div(c, number_like(c, x, smoothing), classes);
    NodeId smooth = mul(c, smooth_loss(c, log_probability, picked, axis), share);
    loss = add(c, rounded(c, mul(c, loss, 1 - smoothing)), rounded(c, smooth));
  }
  c.result(loss);
}

// The margin to the label's score, over all other classes, averaged over the classes.
void multi_margin_loss(Context& c) {
  NodeId x = real(c, "self");
  NodeId target = c.tensor("target");
  if (c.b.rank(x) < 2) {
    x = c.b.reshape(x, {1, c.b.rank(x) == 0 ? Expr(1) : c.b.size(x, 0)});
  }
  Shape rows = {c.b.size(x, 0), 1};
  NodeId label = c.b.reshape(target, rows);
  c.check_index(label, {c.b.size(x, 1)});
  double p = c.number("p", 1);
  std::vector<Coordinate> where = {Coordinate{-1, Expr::index(0)}, Coordinate{0, {}}};
  NodeId score = c.b.gather(x, {label}, rows, where);
  NodeId gap = maximum(c, add(c, sub(c, x, score), c.number("margin", 1)), 0);
  if (p == 2) gap = mul(c, gap, gap);
  if (c.has("weight")) {
    NodeId weights = c.b.cast(c.tensor("weight"), c.b.dtype(x));
    gap = mul(c, gap, c.b.gather(weights, {label}, rows, {Coordinate{0, {}}}));
  }
  NodeId column = positions(c, c.b.size(x, 1), 1, 2, c.b.dtype(label));
  NodeId own = c.b.binary(BinaryOp::kEqual, column, label);
  NodeId others = c.b.select(own, number_like(c, x, 0), gap);
  NodeId loss = div(c, c.b.reduce(ReduceOp::kSum, others, {1}), count(c, x, {1}, c.b.dtype(x)));
  loss = reduced(c, loss);
  c.result(c.b.rank(loss) == 0 ? loss : c.b.reshape(loss, c.out_shape()));
}

// Each label's score against each other class's; a row's labels end at the first negative one.
void multilabel_margin_loss(Context& c) {
  NodeId x = real(c, "self");
  NodeId target = c.b.cast(c.tensor("target"), DType::kInt64);
  Sizes given = c.b.shape(x);
  if (given.size() > 2) c.refuse("it takes vectors, or a matrix of them");
  Expr classes = given.empty() ? Expr(1) : given.back();
  Expr rows = given.size() == 2 ? given[0] : Expr(1);
  Shape matrix = {rows, classes};
  x = c.b.reshape(x, matrix);
  target = c.b.reshape(target, matrix);
  NodeId zero = c.b.scalar_int(DType::kInt64, 0);
  NodeId listed = c.b.cast(c.b.binary(BinaryOp::kLessEqual, zero, target), DType::kInt64);
  NodeId counts = truth(c, c.b.scan(ScanOp::kMin, listed, 1));
  std::vector<Coordinate> where = {Coordinate{-1, Expr::index(0)}, Coordinate{0, {}}};
  NodeId place = c.b.select(counts, target, c.b.size_scalar(DType::kInt64, classes));
  DType d = c.b.dtype(x);
  NodeId is_target = c.b.scatter(ScatterMode::kAssign, c.b.full(d, matrix, 0),
                                 c.b.full(d, matrix, 1), {place}, where);
  NodeId score = c.b.gather(x, {c.b.select(counts, target, zero)}, matrix, where);
  NodeId gap = sub(c, c.b.unsqueeze(x, 1), c.b.unsqueeze(score, 2));  // (row, label, class)
  NodeId margin = maximum(c, add(c, gap, 1.0), 0);
  margin = mul(c, margin, c.b.unsqueeze(from_number(c, 1, is_target), 1));
  margin = mul(c, margin, c.b.unsqueeze(c.b.cast(counts, d), 2));
  NodeId loss = div(c, c.b.reduce(ReduceOp::kSum, margin, {1, 2}), c.b.size_scalar(d, classes));
  loss = reduced(c, loss);
  c.result(c.b.rank(loss) == 0 ? loss : c.b.reshape(loss, c.out_shape()));
  if (c.wants_output(1)) c.result(c.b.reshape(is_target, c.out_shape(1)), 1);
}

// ---- Margins and distances -------------------------------------------------------------------

void soft_margin_loss(Context& c) {
  NodeId product = rounded(c, mul(c, real(c, "self"), real(c, "target")));
  NodeId grown = rounded(c, exp_of(c, negated(c, product)));
  c.result(reduced(c, rounded(c, c.b.unary(UnaryOp::kLog1p, grown))));
}

void hinge_embedding_loss(Context& c) {
  NodeId x = real(c, "self");
  NodeId y = real(c, "target");
  NodeId zero = number_like(c, x, 0);
  NodeId far = maximum(c, rounded(c, from_number(c, c.number("margin", 1), x)), 0);
  NodeId apart = c.b.binary(BinaryOp::kNotEqual, y, number_like(c, y, 1));
  NodeId together = c.b.binary(BinaryOp::kNotEqual, y, number_like(c, y, -1));
  c.result(reduced(c, add(c, c.b.select(apart, far, zero), c.b.select(together, x, zero))));
}

void margin_ranking_loss(Context& c) {
  NodeId gap = rounded(c, sub(c, real(c, "input1"), real(c, "input2")));
  NodeId signed_gap = rounded(c, mul(c, negated(c, real(c, "target")), gap));
  NodeId margin = term(c, signed_gap, c.number("margin", 0));
  c.result(reduced(c, maximum(c, rounded(c, add(c, signed_gap, margin)), 0)));
}

NodeId dot_last(Context& c, NodeId a, NodeId b, int axis) {
  return rounded(c, c.b.reduce(ReduceOp::kSum, rounded(c, mul(c, a, b)), {axis}));
}

void cosine_embedding_loss(Context& c) {
  NodeId a = real(c, "input1");
  NodeId b = real(c, "input2");
  NodeId y = real(c, "target");
  int axis = c.b.rank(a) - 1;
  if (axis < 0 || axis > 1) c.refuse("it takes vectors, or matrices of them");
  constexpr double kEpsilon = 1e-12;
  auto squares = [&](NodeId x) {
    NodeId sum = dot_last(c, x, x, axis);
    return rounded(c, add(c, sum, term(c, sum, kEpsilon)));
  };
  NodeId product = rounded(c, mul(c, squares(a), squares(b)));
  NodeId length = rounded(c, c.b.unary(UnaryOp::kSqrt, product));
  NodeId cosine = rounded(c, div(c, dot_last(c, a, b, axis), length));
  NodeId zero = number_like(c, y, 0);
  NodeId past = rounded(c, sub(c, cosine, term(c, cosine, c.number("margin", 0))));
  NodeId alike = c.b.select(c.b.binary(BinaryOp::kEqual, y, number_like(c, y, 1)),
                            rounded(c, from_number(c, 1, cosine)), zero);
  NodeId unlike =
      c.b.select(c.b.binary(BinaryOp::kEqual, y, number_like(c, y, -1)), maximum(c, past, 0), zero);
  c.result(reduced(c, add(c, alike, unlike)));
}

void poisson_nll_loss(Context& c) {
  NodeId x = real(c, "input");
  NodeId y = real(c, "target");
  NodeId loss;
  if (c.flag("log_input", true)) {
    loss = sub(c, rounded(c, exp_of(c, x)), rounded(c, mul(c, y, x)));
  } else {
    NodeId above = rounded(c, add(c, x, term(c, x, c.number("eps", 1e-8))));
    loss = sub(c, x, rounded(c, mul(c, y, rounded(c, log_of(c, above)))));
  }
  if (c.flag("full", false)) {
    // Stirling's approximation of log(y!), where y exceeds one.
    NodeId power = rounded(c, mul(c, y, rounded(c, log_of(c, y))));
    NodeId root = rounded(c, log_of(c, rounded(c, mul(c, y, 2 * M_PI))));
    NodeId stirling =
        rounded(c, add(c, rounded(c, sub(c, power, y)), rounded(c, mul(c, root, 0.5))));
    NodeId above = is_less(c, number_like(c, y, 1), y);
    loss = add(c, rounded(c, loss), c.b.select(above, stirling, number_like(c, y, 0)));
  }
  c.result(reduced(c, loss));
}

// The difference is in the arguments' own type: those of bytes wrap.
NodeId pair_distance(Context& c, std::string_view first, std::string_view second, bool keep) {
  Operand a = operand(c, first);
  Operand b = operand(c, second);
  DType own = compute_dtype(promote(c, {a, b}));
  NodeId between = c.b.cast(sub(c, as(c, a, own), as(c, b, own)), float_dtype(c.out_dtype()));
  between = rounded(c, between);
  NodeId gap = rounded(c, add(c, between, term(c, between, c.number("eps", 1e-6))));
  if (c.b.rank(gap) == 0) c.refuse("it takes vectors");
  return rounded(c, norm(c, gap, c.number("p", 2), {c.b.rank(gap) - 1}, keep));
}

void pairwise_distance(Context& c) {
  c.result(pair_distance(c, "x1", "x2", c.flag("keepdim", false)));
}

void triplet_margin_loss(Context& c) {
  NodeId near = pair_distance(c, "anchor", "positive", false);
  NodeId far = pair_distance(c, "anchor", "negative", false);
  if (c.flag("swap", false)) {
    far = c.b.binary(BinaryOp::kMin, far, pair_distance(c, "positive", "negative", false));
  }
  NodeId grown = rounded(c, add(c, near, term(c, near, c.number("margin", 1))));
  c.result(reduced(c, maximum(c, rounded(c, sub(c, grown, far)), 0)));
}

void cosine_similarity(Context& c) {
  NodeId a = real(c, "x1");
  NodeId b = real(c, "x2");
  auto shape = c.b.broadcast(c.b.shape(a), c.b.shape(b));
  if (!shape) c.refuse("the operands do not broadcast");
  a = c.b.expand(a, *shape);
  b = c.b.expand(b, *shape);
  if (c.b.rank(a) == 0) {
    a = c.b.unsqueeze(a, 0);
    b = c.b.unsqueeze(b, 0);
  }
  int axis = c.axis("dim", c.b.rank(a), 1);
  double epsilon = c.number("eps", 1e-8);
  auto unit = [&](NodeId x) {
    NodeId length = rounded(c, norm(c, x, 2, {axis}, true));
    return rounded(c, div(c, x, maximum(c, length, rounded_number(c.out_dtype(), epsilon))));
  };
  c.result(dot_last(c, unit(a), unit(b), axis));
}

}  // namespace

void add_loss_operators(OperatorTable* t) {
  t->add("aten.mse_loss", mse_loss);
  t->add("aten.l1_loss", l1_loss);
  t->add("aten.smooth_l1_loss", [](Context& c) { rounded_l1(c, c.number("beta", 1), true); });
  t->add("aten.huber_loss", [](Context& c) { rounded_l1(c, c.number("delta", 1), false); });
  t->add("aten.binary_cross_entropy", binary_cross_entropy);
  t->add("aten.binary_cross_entropy_with_logits", binary_cross_entropy_with_logits);
  t->add("aten.kl_div", kl_div);
  for (const char* name : {"aten.nll_loss", "aten.nll_loss_forward", "aten.nll_loss2d",
                           "aten.nll_loss2d_forward", "aten.nll_loss_nd"}) {
    t->add(name, nll_loss);
  }
  t->add("aten.cross_entropy_loss", cross_entropy);
  t->add("aten.multi_margin_loss", multi_margin_loss);
  t->add("aten.multilabel_margin_loss", multilabel_margin_loss);
  t->add("aten.multilabel_margin_loss_forward", multilabel_margin_loss);
  t->add("aten.soft_margin_loss", soft_margin_loss);
  t->add("aten.hinge_embedding_loss", hinge_embedding_loss);
  t->add("aten.margin_ranking_loss", margin_ranking_loss);
  t->add("aten.cosine_embedding_loss", cosine_embedding_loss);
  t->add("aten.poisson_nll_loss", poisson_nll_loss);
  t->add("aten.pairwise_distance", pairwise_distance);
  t->add("aten.triplet_margin_loss", triplet_margin_loss);
  t->add("aten.cosine_similarity", cosine_similarity);
}

}  // namespace clients
