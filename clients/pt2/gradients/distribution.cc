// Gradients of gamma, beta and Dirichlet numbers to the parameters of their distribution.
//
// A number x with the distribution function F(x; a) and the density f moves with its parameter by
// -(dF/da) / f, the implicit reparameterisation of Figurnov, Mohamed and Mnih (2018). dF/da is an
// integral over one side of x, whichever side's density falls away from x, so that nothing cancels:
// the integrand falls at least exponentially. It is summed at nodes u = exp(y - exp(-y)) at equal
// steps of y (Takahasi and Mori's double exponential rule for a half line), scaled to where the
// integrand has fallen to about 1 / e.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// Relative errors of at most 2e-4, and below 3e-6 in 99 of 100 draws, for parameters from 1e-3 on.
constexpr int kNodes = 64;
constexpr double kFirst = -3;
constexpr double kLast = 4.2;

NodeId exponential(Context& c, NodeId x) { return c.b.unary(UnaryOp::kExp, x); }
NodeId logarithm(Context& c, NodeId x) { return c.b.unary(UnaryOp::kLog, x); }
NodeId negative(Context& c, NodeId x) { return c.b.unary(UnaryOp::kNeg, x); }
NodeId digamma(Context& c, NodeId x) { return c.b.unary(UnaryOp::kDigamma, x); }
NodeId inverse(Context& c, NodeId x) { return div(c, number_like(c, x, 1), x); }
NodeId at_most(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kLessEqual, a, b); }

// log(1 / (1 + exp(-x)))
NodeId log_sigmoid(Context& c, NodeId x) {
  NodeId fall = exponential(c, negative(c, c.b.unary(UnaryOp::kAbs, x)));
  NodeId rest = c.b.unary(UnaryOp::kLog1p, fall);
  return sub(c, minimum(c, x, 0), rest);
}

struct Rule {
  NodeId places = 0;
  NodeId weights = 0;
};

Rule half_line(Context& c) {
  const double step = (kLast - kFirst) / (kNodes - 1);
  NodeId y = add(c, mul(c, c.b.iota(DType::kFloat64, kNodes), step), kFirst);
  NodeId fall = exponential(c, negative(c, y));
  NodeId places = exponential(c, sub(c, y, fall));
  return {places, mul(c, mul(c, places, add(c, fall, 1.0)), step)};
}

// What is integrated: one number for each element and node.
NodeId with_nodes(Context& c, NodeId x) { return c.b.unsqueeze(x, c.b.rank(x)); }

// Where exp(-slope v - curvature v^2 / 2) is 1 / e.
NodeId fall_length(Context& c, NodeId slope, NodeId curvature) {
  NodeId square = add(c, mul(c, slope, slope), add(c, curvature, curvature));
  return div(c, number_like(c, slope, 2), add(c, slope, c.b.unary(UnaryOp::kSqrt, square)));
}

// An element's parameters in float64, the side on which it is integrated, and the steps of the
// rule, negative below.
struct Side {
  NodeId below = 0;
  NodeId length = 0;
};

NodeId steps_of(Context& c, const Side& side, const Rule& rule) {
  NodeId signed_length = c.b.select(side.below, negative(c, side.length), side.length);
  return mul(c, with_nodes(c, signed_length), rule.places);
}

// The integral, negative below: what is left of -(dF/da) / f by a factor of x.
NodeId integral(Context& c, const Side& side, const Rule& rule, NodeId integrand) {
  NodeId sum =
      c.b.reduce(ReduceOp::kSum, mul(c, integrand, rule.weights), {c.b.rank(integrand) - 1});
  NodeId scaled = mul(c, sum, side.length);
  return c.b.select(side.below, negative(c, scaled), scaled);
}

// Nothing moves a number that has come to an end of its range.
NodeId inside(Context& c, NodeId x, double end, NodeId value) {
  NodeId at_end = c.b.binary(BinaryOp::kEqual, x, number_like(c, x, end));
  return c.b.select(at_end, number_like(c, x, 0), value);
}

NodeId parameter(Context& c, std::string_view name) {
  return c.b.cast(c.tensor(name), DType::kFloat64);
}

// By v = log(t / x): x times the sum of (log t - digamma(a)) exp(a v - x (exp(v) - 1)).
void standard_gamma_grad(Context& c) {
  NodeId a = parameter(c, "self"), x = parameter(c, "output");
  NodeId slope = c.b.unary(UnaryOp::kAbs, sub(c, a, x));
  NodeId length = fall_length(c, slope, x);
  NodeId below = at_most(c, x, a);
  // Small parameters leave a long tail below; above, exp(v) ends what a small x begins.
  NodeId tail = c.b.binary(BinaryOp::kMax, length, inverse(c, a));
  NodeId two_over_root = div(c, number_like(c, x, 2), c.b.unary(UnaryOp::kSqrt, x));
  NodeId end = c.b.unary(UnaryOp::kLog1p, add(c, two_over_root, inverse(c, x)));
  Side side{below, c.b.select(below, tail, c.b.binary(BinaryOp::kMin, length, end))};
  Rule rule = half_line(c);
  NodeId v = steps_of(c, side, rule);
  NodeId distance = with_nodes(c, sub(c, logarithm(c, x), digamma(c, a)));
  NodeId growth = mul(c, with_nodes(c, x), c.b.unary(UnaryOp::kExpm1, v));
  NodeId density = exponential(c, sub(c, mul(c, with_nodes(c, a), v), growth));
  NodeId sum = integral(c, side, rule, mul(c, add(c, distance, v), density));
  c.result(inside(c, x, 0, mul(c, x, sum)));
}

// The gradient of a beta number x to its first parameter, over 1 - x. By v, the distance of t from
// x in log(t / (1 - t)): x times the sum of (log t - digamma(a) + digamma(a + b)) and the ratio of
// t^a (1 - t)^b to that of x.
void dirichlet_grad(Context& c) {
  NodeId x = parameter(c, "x"), a = parameter(c, "alpha"), total = parameter(c, "total");
  NodeId b = maximum(c, sub(c, total, a), 1e-30);
  NodeId rest = sub(c, number_like(c, x, 1), x);
  NodeId mean = mul(c, total, x);
  NodeId length = fall_length(c, c.b.unary(UnaryOp::kAbs, sub(c, a, mean)), mul(c, mean, rest));
  NodeId below = at_most(c, mean, a);
  NodeId tail = inverse(c, c.b.select(below, a, b));
  Side side{below, c.b.binary(BinaryOp::kMax, length, tail)};
  Rule rule = half_line(c);
  NodeId log_x = logarithm(c, x), log_rest = logarithm(c, rest);
  NodeId place = add(c, with_nodes(c, sub(c, log_x, log_rest)), steps_of(c, side, rule));
  NodeId log_t = log_sigmoid(c, place), log_past = log_sigmoid(c, negative(c, place));
  NodeId distance = with_nodes(c, sub(c, digamma(c, total), digamma(c, a)));
  NodeId first = mul(c, with_nodes(c, a), sub(c, log_t, with_nodes(c, log_x)));
  NodeId second = mul(c, with_nodes(c, b), sub(c, log_past, with_nodes(c, log_rest)));
  NodeId ratio = exponential(c, add(c, first, second));
  NodeId sum = integral(c, side, rule, mul(c, add(c, log_t, distance), ratio));
  c.result(inside(c, x, 0, inside(c, x, 1, mul(c, x, sum))));
}

}  // namespace

void add_distribution_backward_operators(OperatorTable* t) {
  t->add("aten._standard_gamma_grad", standard_gamma_grad);
  t->add("aten._dirichlet_grad", dirichlet_grad);
}

}  // namespace clients
