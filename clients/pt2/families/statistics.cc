// Statistics and calculus: membership, covariance, integrals and gradients by differences.
#include <algorithm>
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

// True where an element is among the test elements.
void isin(Context& c) {
  Operand x = operand(c, c.has("elements") ? "elements" : "element");
  Operand tests = operand(c, c.has("test_elements") ? "test_elements" : "test_element");
  DType d = promote(c, {x, tests});
  NodeId values = as(c, x, d);
  NodeId line = flatten(c, as(c, tests, d));
  int rank = c.b.rank(values);
  DType wide = compute_dtype(d);
  NodeId same = c.b.binary(BinaryOp::kEqual, c.b.unsqueeze(c.b.cast(values, wide), rank),
                           c.b.cast(line, wide));
  NodeId found = c.b.reduce(ReduceOp::kAny, same, {rank});
  c.result(c.flag("invert", false) ? logical_not(c, found) : found);
}

// Rows are variables, columns are observations.
NodeId covariance(Context& c, NodeId x, NodeId weights, double correction) {
  NodeId sum = c.b.reduce(ReduceOp::kSum, weights, {0});
  NodeId average = div(c, c.b.reduce(ReduceOp::kSum, mul(c, x, weights), {1}, true), sum);
  NodeId centred = sub(c, x, average);
  NodeId product = c.b.matmul(mul(c, centred, weights), c.b.permute(centred, {1, 0}));
  NodeId divisor = add(c, sum, -correction);
  if (c.has("aweights")) {
    NodeId a = c.b.cast(c.tensor("aweights"), c.b.dtype(x));
    NodeId squares = c.b.reduce(ReduceOp::kSum, mul(c, weights, a), {0});
    divisor = sub(c, sum, mul(c, div(c, squares, sum), correction));
  }
  return div(c, product, maximum(c, divisor, 0));
}

NodeId observations(Context& c) {
  NodeId x = float_tensor(c, "self");
  if (c.b.rank(x) > 2) c.refuse("it takes at most a matrix");
  if (c.b.rank(x) == 0) return c.b.reshape(x, {1, 1});
  return c.b.rank(x) == 1 ? c.b.unsqueeze(x, 0) : x;
}

void cov(Context& c) {
  NodeId x = observations(c);
  DType d = c.b.dtype(x);
  NodeId weights = c.b.full(d, {c.b.size(x, 1)}, 1);
  if (c.has("fweights")) weights = mul(c, weights, c.b.cast(c.tensor("fweights"), d));
  if (c.has("aweights")) weights = mul(c, weights, c.b.cast(c.tensor("aweights"), d));
  NodeId value = covariance(c, x, weights, c.number("correction", 1));
  c.result(c.b.reshape(value, c.out_shape()));
}

void corrcoef(Context& c) {
  NodeId x = observations(c);
  NodeId value = covariance(c, x, c.b.full(c.b.dtype(x), {c.b.size(x, 1)}, 1), 1);
  Expr n = c.b.size(value, 0);
  NodeId deviation = c.b.unary(UnaryOp::kSqrt,
                               c.b.view(value, View{{n}, {Expr::index(0), Expr::index(0)}, {}, 0}));
  value = div(c, div(c, value, c.b.unsqueeze(deviation, 1)), c.b.unsqueeze(deviation, 0));
  value = minimum(c, maximum(c, value, -1), 1);
  c.result(c.b.reshape(value, c.out_shape()));
}

// What an integral is made of: the sums of neighbours and the distances between them.
struct Panels {
  NodeId y = 0;
  NodeId sums = 0;
  NodeId width = 0;     // a scalar unless `uneven`
  bool uneven = false;  // the places are given, not one distance for all
  int axis = 0;
};

Panels panels(Context& c) {
  Panels p;
  p.y = c.b.cast(c.tensor("y"), compute_dtype(c.out_dtype()));
  p.axis = c.axis("dim", c.b.rank(p.y), -1);
  Expr n = c.b.size(p.y, p.axis) - 1;
  p.sums = rounded(c, add(c, c.b.slice(p.y, p.axis, 1, n), c.b.slice(p.y, p.axis, 0, n)));
  p.uneven = c.has("x") && c.is_tensor("x");
  if (!p.uneven) {
    p.width = c.has("dx") ? as(c, operand(c, "dx"), c.b.dtype(p.y)) : number_like(c, p.y, 1);
    return p;
  }
  NodeId x = c.b.cast(c.tensor("x"), c.b.dtype(p.y));
  if (c.b.rank(x) == 1) {
    Shape line(at(c.b.rank(p.y)), Expr(1));
    line[at(p.axis)] = c.b.size(x, 0);
    x = c.b.reshape(x, line);
  }
  int along = p.axis - c.b.rank(p.y) + c.b.rank(x);
  Expr m = c.b.size(x, along) - 1;
  p.width = rounded(c, sub(c, c.b.slice(x, along, 1, m), c.b.slice(x, along, 0, m)));
  return p;
}

// The steps and their order are PyTorch's, for in half precision each is rounded.
void trapezoid(Context& c) {
  Panels p = panels(c);
  if (p.uneven) {
    NodeId area = rounded(c, mul(c, p.sums, p.width));
    return c.result(mul(c, rounded(c, c.b.reduce(ReduceOp::kSum, area, {p.axis})), 0.5));
  }
  if (c.b.size(p.y, p.axis).is_constant(0)) {
    return c.result(c.b.reduce(ReduceOp::kSum, p.y, {p.axis}));
  }
  auto end = [&](const Expr& place) {
    return c.b.squeeze(c.b.slice(p.y, p.axis, place, 1), p.axis);
  };
  NodeId ends = rounded(c, add(c, end(0), end(c.b.size(p.y, p.axis) - 1)));
  NodeId total = rounded(c, c.b.reduce(ReduceOp::kSum, p.y, {p.axis}));
  c.result(mul(c, rounded(c, sub(c, total, rounded(c, mul(c, ends, 0.5)))), p.width));
}

void cumulative_trapezoid(Context& c) {
  Panels p = panels(c);
  NodeId half = mul(c, p.width, 0.5);
  NodeId area = rounded(c, mul(c, p.sums, p.uneven ? rounded(c, half) : half));
  c.result(c.b.scan(ScanOp::kSum, area, p.axis));
}

// Sums over the axes that a broadcast from the result's shape would have made.
void sum_to_size(Context& c) {
  NodeId x = c.b.cast(c.tensor("self"), compute_dtype(c.out_dtype()));
  Sizes to = c.out_shape();
  size_t rank = static_cast<size_t>(c.b.rank(x));
  if (to.size() > rank) c.refuse("the result has more axes");
  std::vector<int> axes;
  for (size_t k = 0; k < rank; ++k) {
    size_t lead = rank - to.size();
    bool summed = k < lead || (to[k - lead].is_constant(1) && !c.b.shape(x)[k].is_constant(1));
    if (summed) axes.push_back(static_cast<int>(k));
  }
  c.result(c.b.reshape(c.b.reduce(ReduceOp::kSum, x, axes, true), to));
}

// ---- Gradients by differences ----------------------------------------------------------------

struct Spacing {
  NodeId before = 0;  // from each inner point to the one before it, a vector or a scalar
  NodeId after = 0;
  NodeId first = 0, second = 0;      // the first two steps
  NodeId second_last = 0, last = 0;  // the last two
};

// The step of axis i of those asked for: one number for all, a number each, or coordinates.
Spacing spacing_of(Context& c, NodeId x, int axis, size_t i) {
  auto all = [&](NodeId step) { return Spacing{step, step, step, step, step, step}; };
  if (!c.has("spacing")) return all(number_like(c, x, 1));
  if (c.is_tensor_list("spacing")) {
    std::vector<NodeId> lines = c.tensors("spacing");
    if (i >= lines.size()) c.refuse("an axis has no coordinates");
    NodeId line = c.b.cast(lines[i], c.b.dtype(x));
    Expr n = c.b.size(x, axis) - 1;
    NodeId steps = sub(c, c.b.slice(line, 0, 1, n), c.b.slice(line, 0, 0, n));
    Shape shape(at(c.b.rank(x)), Expr(1));
    auto part = [&](const Expr& start, const Expr& length) {
      shape[at(axis)] = length;
      return c.b.reshape(c.b.slice(steps, 0, start, length), shape);
    };
    Expr inner = n - 1;
    return {part(0, inner),
            part(1, inner),
            part(0, 1),
            part(c.b.simplify(common::min(1, inner)), 1),
            part(c.b.simplify(common::max(inner - 1, 0)), 1),
            part(inner, 1)};
  }
  std::vector<double> numbers = c.numbers("spacing");
  double step = numbers.size() == 1 ? numbers[0] : i < numbers.size() ? numbers[i] : 1;
  return all(number_like(c, x, step));
}

NodeId gradient_along(Context& c, NodeId x, int axis, const Spacing& h, int64_t order) {
  Expr n = c.b.size(x, axis);
  auto part = [&](const Expr& start, const Expr& length) {
    return c.b.slice(x, axis, start, length);
  };
  auto weigh = [&](NodeId value, NodeId over, NodeId under) {
    return mul(c, value, div(c, over, under));
  };
  Expr inner = c.b.simplify(n - 2);
  NodeId both = add(c, h.before, h.after);
  // Second order in uneven steps.
  NodeId sum = sub(c, weigh(part(2, inner), h.before, mul(c, h.after, both)),
                   weigh(part(0, inner), h.after, mul(c, h.before, both)));
  NodeId uneven = sub(c, h.after, h.before);
  sum = add(c, sum, weigh(part(1, inner), uneven, mul(c, h.before, h.after)));
  NodeId begin = div(c, sub(c, part(1, 1), part(0, 1)), h.first);
  NodeId end = div(c, sub(c, part(n - 1, 1), part(n - 2, 1)), h.last);
  if (order == 2) {
    auto edge = [&](NodeId near, NodeId middle, NodeId far, NodeId step, NodeId next) {
      NodeId whole = add(c, step, next);
      NodeId value =
          sub(c, weigh(middle, whole, mul(c, step, next)), weigh(far, step, mul(c, next, whole)));
      return sub(c, value, weigh(near, add(c, whole, step), mul(c, step, whole)));
    };
    begin = edge(part(0, 1), part(1, 1), part(2, 1), h.first, h.second);
    end = c.b.unary(UnaryOp::kNeg,
                    edge(part(n - 1, 1), part(n - 2, 1), part(n - 3, 1), h.last, h.second_last));
  }
  return c.b.concat({begin, sum, end}, axis);
}

void gradient(Context& c) {
  NodeId x = float_tensor(c, "self");
  std::vector<int> axes;
  if (c.has("dim")) axes = c.ordered_axes("dim", c.b.rank(x));
  if (axes.empty()) {
    for (int k = 0; k < c.b.rank(x); ++k) axes.push_back(k);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    Spacing h = spacing_of(c, x, axes[i], i);
    c.result(gradient_along(c, x, axes[i], h, c.integer("edge_order", 1)), i);
  }
}

// ---- Norms -----------------------------------------------------------------------------------

// Slices whose p-norm exceeds a limit are scaled down to it.
void renorm(Context& c) {
  NodeId x = float_tensor(c, "self");
  int axis = c.axis("dim", c.b.rank(x));
  double p = c.number("p", 2);
  double limit = c.number("maxnorm", 1);
  std::vector<int> others;
  for (int k = 0; k < c.b.rank(x); ++k) {
    if (k != axis) others.push_back(k);
  }
  NodeId length = norm(c, x, p, others, true);
  NodeId above = c.b.binary(BinaryOp::kLess, number_like(c, length, limit), length);
  NodeId scale = rounded(c, div(c, number_like(c, length, limit), add(c, length, 1e-7)));
  c.result(mul(c, x, c.b.select(above, scale, number_like(c, length, 1))));
}

}  // namespace

void add_statistics_operators(OperatorTable* t) {
  t->add("aten.isin", isin);
  t->add("aten.cov", cov);
  t->add("aten.corrcoef", corrcoef);
  t->add("aten.trapezoid", trapezoid);
  t->add("aten.cumulative_trapezoid", cumulative_trapezoid);
  t->add("aten.renorm", renorm);
  t->add("aten.sum_to_size", sum_to_size);
  t->add("aten.gradient", gradient);
}

}  // namespace clients
