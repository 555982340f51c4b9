// Operators of their own kind: divisors, distances, quantiles, resampling, expert
// products.
#include <algorithm>
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

using common::Coordinate;

// Euclid's algorithm, unrolled: neighbouring Fibonacci numbers below 2^63 take 91 steps.
NodeId greatest_divisor(Context& c, NodeId a, NodeId b) {
  constexpr int kSteps = 92;
  a = c.b.unary(UnaryOp::kAbs, a);
  b = c.b.unary(UnaryOp::kAbs, b);
  NodeId zero = number_like(c, a, 0);
  NodeId one = number_like(c, a, 1);
  for (int i = 0; i < kSteps; ++i) {
    NodeId done = c.b.binary(BinaryOp::kEqual, b, zero);
    NodeId divisor = c.b.select(done, one, b);
    NodeId rest = c.b.binary(BinaryOp::kFmod, a, divisor);
    a = c.b.select(done, a, b);
    b = c.b.select(done, zero, rest);
  }
  return a;
}

void divisor(Context& c, bool least_multiple) {
  NodeId a = c.b.cast(c.tensor("self"), c.out_dtype());
  NodeId b = c.b.cast(c.tensor("other"), c.out_dtype());
  if (!common::is_integer(c.out_dtype())) c.refuse("it takes integers");
  auto shape = c.b.broadcast(c.b.shape(a), c.b.shape(b));
  if (!shape) c.refuse("the operands do not broadcast");
  a = c.b.expand(a, *shape);
  b = c.b.expand(b, *shape);
  NodeId gcd = greatest_divisor(c, a, b);
  if (!least_multiple) return c.result(gcd);
  NodeId none = c.b.binary(BinaryOp::kEqual, gcd, number_like(c, gcd, 0));
  NodeId safe = c.b.select(none, number_like(c, gcd, 1), gcd);
  NodeId product = c.b.unary(UnaryOp::kAbs, mul(c, div(c, a, safe), b));
  c.result(c.b.select(none, number_like(c, gcd, 0), product));
}

NodeId last_norm(Context& c, NodeId difference, double p) {
  return norm(c, difference, p, {c.b.rank(difference) - 1});
}

void dist(Context& c) {
  NodeId a = float_tensor(c, "self");
  NodeId b = float_tensor(c, "other");
  if (!c.b.broadcast(c.b.shape(a), c.b.shape(b))) c.refuse("the operands do not broadcast");
  c.result(last_norm(c, flatten(c, sub(c, a, b)), c.number("p", 2)));
}

void cdist(Context& c) {
  NodeId a = float_tensor(c, "x1");
  NodeId b = float_tensor(c, "x2");
  NodeId rows = c.b.unsqueeze(a, c.b.rank(a) - 1);
  NodeId columns = c.b.unsqueeze(b, c.b.rank(b) - 2);
  if (!c.b.broadcast(c.b.shape(rows), c.b.shape(columns))) c.refuse("the operands do not fit");
  c.result(last_norm(c, sub(c, rows, columns), c.number("p", 2)));
}

// How a p-norm of differences changes with each of them, times the norm's gradient; both have a
// last axis of one. Zero where the norm is.
NodeId through_distance(Context& c, NodeId difference, NodeId distance, NodeId g) {
  double p = c.number("p", 2);
  NodeId size = c.b.unary(UnaryOp::kAbs, difference);
  NodeId sign = c.b.unary(UnaryOp::kSign, difference);
  NodeId slope;
  if (p == 0) return mul(c, mul(c, sign, g), 0.0);
  if (p == 1) return mul(c, sign, g);
  if (std::isinf(p)) {
    NodeId greatest = c.b.binary(BinaryOp::kEqual, size, distance);
    slope = c.b.select(greatest, sign, number_like(c, sign, 0));
  } else {
    NodeId ratio = div(c, size, distance);
    NodeId power = p == 2 ? ratio : c.b.binary(BinaryOp::kPow, ratio, number_like(c, ratio, p - 1));
    slope = mul(c, sign, power);
  }
  NodeId none =
      c.b.binary(BinaryOp::kOr, c.b.binary(BinaryOp::kEqual, size, number_like(c, size, 0)),
                 c.b.binary(BinaryOp::kEqual, distance, number_like(c, distance, 0)));
  return c.b.select(none, number_like(c, slope, 0), mul(c, slope, g));
}

// The gradient to x1; that to x2 is asked for with the operands exchanged.
void cdist_backward(Context& c) {
  NodeId a = float_tensor(c, "x1");
  NodeId b = float_tensor(c, "x2");
  int rank = c.b.rank(a);
  if (rank < 2 || c.b.rank(b) < 2) c.refuse("it takes matrices");
  NodeId difference = sub(c, c.b.unsqueeze(a, rank - 1), c.b.unsqueeze(b, c.b.rank(b) - 2));
  NodeId distance = float_tensor(c, "cdist");
  NodeId g = float_tensor(c, "grad_output");
  NodeId parts = through_distance(c, difference, c.b.unsqueeze(distance, c.b.rank(distance)),
                                  c.b.unsqueeze(g, c.b.rank(g)));
  c.result(c.b.reduce(ReduceOp::kSum, parts, {c.b.rank(parts) - 2}));
}

void pdist_backward(Context& c) {
  NodeId x = float_tensor(c, "self");
  const Sizes shape = c.b.shape(x);
  if (shape.size() != 2 || !shape[0].is_constant()) c.refuse("it takes a matrix of known height");
  NodeId distance = float_tensor(c, "pdist");
  Expr number = c.b.size(distance, 0);
  Pairs pairs = triangle(c, shape[0].constant(), shape[0].constant(), 1, false, number);
  auto index = [&](NodeId row) { return c.b.expand(c.b.unsqueeze(row, 1), {number, shape[1]}); };
  auto rows = [&](NodeId row) {
    return c.b.gather(x, {index(row)}, {number, shape[1]}, along(2, 0));
  };
  NodeId difference = sub(c, rows(pairs.row), rows(pairs.column));
  NodeId g = float_tensor(c, c.has("grad_output") ? "grad_output" : "grad");
  NodeId parts = through_distance(c, difference, c.b.unsqueeze(distance, 1), c.b.unsqueeze(g, 1));
  NodeId out = c.b.scatter(ScatterMode::kAdd, c.b.full(c.b.dtype(x), shape, 0), parts,
                           {index(pairs.row)}, along(2, 0));
  c.result(c.b.scatter(ScatterMode::kAdd, out, c.b.unary(UnaryOp::kNeg, parts),
                       {index(pairs.column)}, along(2, 0)));
}

void pdist(Context& c) {
  NodeId x = float_tensor(c, "self");
  const Sizes shape = c.b.shape(x);
  if (shape.size() != 2 || !shape[0].is_constant()) c.refuse("it takes a matrix of known height");
  int64_t n = shape[0].constant();
  Expr number = c.out_size(0);
  Pairs pairs = triangle(c, n, n, 1, false, number);
  auto rows = [&](NodeId index) {
    return c.b.gather(x, {c.b.unsqueeze(index, 1)}, {number, shape[1]}, along(2, 0));
  };
  c.result(last_norm(c, sub(c, rows(pairs.row), rows(pairs.column)), c.number("p", 2)));
}

// The base with src written at computed coordinates over src's loop indices.
void write_at(Context& c, NodeId base, const std::vector<Expr>& index) {
  NodeId source = c.b.cast(c.tensor("src"), c.b.dtype(base));
  std::vector<Coordinate> coordinates;
  for (const Expr& e : index) coordinates.push_back({-1, e});
  NodeId out = c.b.scatter(ScatterMode::kAssign, base, source, {}, coordinates);
  c.set(c.b.reshape(out, c.out_shape()));
}

void diagonal_scatter(Context& c) {
  NodeId base = c.tensor("self");
  int rank = c.b.rank(base);
  int64_t offset = c.integer("offset", 0);
  int first = c.axis("dim1", rank, 0);
  int second = c.axis("dim2", rank, 1);
  if (c.b.rank(c.tensor("src")) != rank - 1) c.refuse("src has another rank");
  Expr along = Expr::index(rank - 2);
  std::vector<Expr> index;
  int next = 0;
  for (int k = 0; k < rank; ++k) {
    if (k == first) {
      index.push_back(along + Expr(std::max<int64_t>(-offset, 0)));
    } else if (k == second) {
      index.push_back(along + Expr(std::max<int64_t>(offset, 0)));
    } else {
      index.push_back(Expr::index(next++));
    }
  }
  write_at(c, base, index);
}

void as_strided_scatter(Context& c) {
  NodeId base = flatten(c, c.tensor("self"));
  std::vector<Expr> strides = c.sizes("stride");
  if (static_cast<int>(strides.size()) != c.b.rank(c.tensor("src"))) c.refuse("src does not fit");
  Expr position = c.size("storage_offset", 0);
  for (size_t k = 0; k < strides.size(); ++k) {
    position += strides[k] * Expr::index(static_cast<int>(k));
  }
  write_at(c, base, {position});
}

void logspace(Context& c) {
  int64_t steps = c.integer("steps");
  double base = c.number("base", 10);
  DType wide = c.out_dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  NodeId start = as(c, operand(c, "start"), wide);
  NodeId end = as(c, operand(c, "end"), wide);
  if (steps == 0) return c.set(c.b.full(c.out_dtype(), c.out_shape(), 0));
  NodeId step = steps == 1 ? number_like(c, start, 0)
                           : div(c, sub(c, end, start),
                                 number_like(c, start, static_cast<double>(steps - 1)));
  NodeId exponent = add(c, start, mul(c, step, c.b.iota(wide, steps)));
  c.result(c.b.binary(BinaryOp::kPow, number_like(c, exponent, base), exponent));
}

// Interpolates between sorted neighbours at q * (n - 1), for each of several q.
void quantile(Context& c, bool ignore_nan) {
  NodeId x = float_tensor(c, "self");
  DType d = c.b.dtype(x);
  NodeId q = c.b.cast(as(c, operand(c, "q"), d), d);
  if (c.b.rank(q) > 1) c.refuse("q must be a number or a vector");
  q = flatten(c, q);
  bool flat = !c.has("dim");
  if (flat) x = flatten(c, x);
  if (c.b.rank(x) == 0) x = c.b.unsqueeze(x, 0);
  int rank = c.b.rank(x);
  int axis = flat ? 0 : c.axis("dim", rank);
  std::vector<int> order;
  for (int k = 0; k < rank; ++k) {
    if (k != axis) order.push_back(k);
  }
  order.push_back(axis);
  x = c.b.permute(x, order);
  Expr size = c.b.size(x, rank - 1);
  auto pick = [&](NodeId from, NodeId index) {
    return c.b.gather(from, {index}, c.b.shape(index), along(rank, rank - 1));
  };
  NodeId sorted = pick(x, c.b.sort_indices(x, rank - 1, false));
  NodeId nan = c.b.cast(c.b.unary(UnaryOp::kIsNan, x), d);
  NodeId nans = c.b.reduce(ReduceOp::kSum, nan, {rank - 1}, true);
  NodeId kept = c.b.size_scalar(d, size);
  if (ignore_nan) kept = sub(c, kept, nans);
  Shape shape = c.b.shape(nans);
  shape.back() = c.b.size(q, 0);
  NodeId place = c.b.expand(mul(c, q, add(c, kept, -1.0)), shape);
  std::string mode = c.text("interpolation", "linear");
  if (mode == "lower") place = c.b.unary(UnaryOp::kFloor, place);
  if (mode == "higher") place = c.b.unary(UnaryOp::kCeil, place);
  if (mode == "nearest") place = c.b.unary(UnaryOp::kRound, place);
  place = maximum(c, place, 0);
  NodeId below = c.b.unary(UnaryOp::kFloor, place);
  NodeId low = pick(sorted, c.b.cast(below, DType::kInt64));
  NodeId high = pick(sorted, c.b.cast(c.b.unary(UnaryOp::kCeil, place), DType::kInt64));
  NodeId weight = mode == "midpoint" ? number_like(c, place, 0.5) : sub(c, place, below);
  NodeId value = add(c, low, mul(c, sub(c, high, low), weight));
  NodeId broken = ignore_nan ? c.b.binary(BinaryOp::kEqual, kept, number_like(c, kept, 0))
                             : c.b.binary(BinaryOp::kLess, number_like(c, nans, 0), nans);
  value = c.b.select(broken, number_like(c, value, NAN), value);
  // The quantiles' axis comes first.
  std::vector<int> front = {rank - 1};
  for (int k = 0; k < rank - 1; ++k) front.push_back(k);
  c.result(c.b.reshape(c.b.permute(value, front), c.out_shape()));
}

// Rows that the indices name and whose norm exceeds a limit are scaled down to it.
void embedding_renorm(Context& c) {
  NodeId weight = c.tensor("self");
  NodeId indices = flatten(c, c.tensor("indices"));
  if (c.b.rank(weight) != 2) c.refuse("it takes a matrix");
  DType d = compute_dtype(c.b.dtype(weight));
  NodeId rows = c.b.cast(weight, d);
  NodeId length = norm(c, rows, c.number("norm_type", 2), {1}, true);
  double limit = c.number("max_norm", 1);
  NodeId scale = div(c, number_like(c, length, limit), add(c, length, 1e-7));
  NodeId above = c.b.binary(BinaryOp::kLess, number_like(c, length, limit), length);
  NodeId none = c.b.full(DType::kInt32, {c.b.size(weight, 0)}, 0);
  NodeId ones = c.b.full(DType::kInt32, c.b.shape(indices), 1);
  NodeId named = c.b.scatter(ScatterMode::kAssign, none, ones, {indices}, along(1, 0));
  NodeId scaled = c.b.binary(BinaryOp::kAnd, above, c.b.unsqueeze(truth(c, named), 1));
  c.result(c.b.select(scaled, mul(c, rows, scale), rows));
}

// Each row times the matrix of its expert; `offs` holds where each expert's rows end, and rows
// behind the last end are zero. The rows' matrices are gathered before they are widened, so that
// no expert that is not used is read.
void grouped_matmul(Context& c, std::string_view rows_name, std::string_view experts_name) {
  NodeId x = c.tensor(rows_name);
  NodeId experts = c.tensor(experts_name);
  NodeId ends = c.tensor("offs");
  if (c.b.rank(x) != 2 || c.b.rank(experts) != 3 || c.b.rank(ends) != 1) {
    c.refuse("only rows times a stack of matrices are supported");
  }
  if (c.has("bias")) c.refuse("a bias is not supported");
  const Sizes xs = c.b.shape(x);
  const Sizes es = c.b.shape(experts);
  if (xs[1] != es[1]) c.refuse("the inner sizes differ");
  DType d = compute_dtype(c.b.dtype(x));
  NodeId row = c.b.cast(positions(c, xs[0], 0, 2), c.b.dtype(ends));
  NodeId passed = c.b.binary(BinaryOp::kLessEqual, c.b.unsqueeze(ends, 0), row);
  NodeId expert = c.b.reduce(ReduceOp::kSum, c.b.cast(passed, DType::kInt64), {1});
  Shape full = {xs[0], es[1], es[2]};
  NodeId index = c.b.reshape(expert, {xs[0], 1, 1});
  NodeId chosen = c.b.gather(
      experts, {index}, full,
      {Coordinate{0, {}}, Coordinate{-1, Expr::index(1)}, Coordinate{-1, Expr::index(2)}});
  NodeId product = mul(c, c.b.unsqueeze(c.b.cast(x, d), 2), c.b.cast(chosen, d));
  NodeId sum = c.b.reduce(ReduceOp::kSum, product, {1});
  NodeId inside = c.b.binary(BinaryOp::kLess, expert, c.b.size_scalar(DType::kInt64, es[0]));
  c.result(c.b.select(c.b.unsqueeze(inside, 1), sum, number_like(c, sum, 0)));
}

}  // namespace

void add_special_operators(OperatorTable* t) {
  t->add("aten.gcd", [](Context& c) { divisor(c, false); });
  t->add("aten.lcm", [](Context& c) { divisor(c, true); });
  t->add("aten.dist", dist);
  t->add("aten.cdist", cdist);
  t->add("aten._cdist_forward", cdist);
  t->add("aten._cdist_backward", cdist_backward);
  t->add("aten._pdist_backward", pdist_backward);
  t->add("aten.pdist", pdist);
  t->add("aten._pdist_forward", pdist);
  t->add("aten.diagonal_scatter", diagonal_scatter);
  t->add("aten.as_strided_scatter", as_strided_scatter);
  t->add("aten.logspace", logspace);
  t->add("aten.quantile", [](Context& c) { quantile(c, false); });
  t->add("aten.nanquantile", [](Context& c) { quantile(c, true); });
  t->add("aten.embedding_renorm", embedding_renorm);
  t->add("aten._grouped_mm", [](Context& c) { grouped_matmul(c, "self", "mat2"); });
  t->add("transformers.grouped_mm_fallback",
         [](Context& c) { grouped_matmul(c, "input", "weight"); });
}

}  // namespace clients
