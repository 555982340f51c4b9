// Random numbers by rejection and by inversion: gamma, Dirichlet, Poisson and binomial.
//
// They have PyTorch's distributions and not its numbers: how many numbers its samplers take of a
// stream depends on the numbers.
#include <array>
#include <cmath>
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/random_attempts.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// All attempts of an element are refused once in 2e10 numbers at most (gamma), or 1e14.
constexpr int64_t kGammaAttempts = 8;
constexpr int64_t kCountAttempts = 24;
// Counts of a mean below this are inverted: those from kTable on have less than 1e-25.
constexpr double kSmallMean = 10;
constexpr int64_t kTable = 60;

NodeId number(Context& c, double value) { return c.b.scalar(DType::kFloat64, value); }
NodeId logarithm(Context& c, NodeId x) { return c.b.unary(UnaryOp::kLog, x); }
NodeId exponential(Context& c, NodeId x) { return c.b.unary(UnaryOp::kExp, x); }
NodeId root(Context& c, NodeId x) { return c.b.unary(UnaryOp::kSqrt, x); }
NodeId lgamma_of_next(Context& c, NodeId x) { return c.b.unary(UnaryOp::kLgamma, add(c, x, 1.0)); }
NodeId over(Context& c, double value, NodeId x) { return div(c, number(c, value), x); }
NodeId minus(Context& c, double value, NodeId x) { return sub(c, number(c, value), x); }
NodeId at_most(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kLessEqual, a, b); }
NodeId both(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kAnd, a, b); }
NodeId either(Context& c, NodeId a, NodeId b) { return c.b.binary(BinaryOp::kOr, a, b); }

NodeId parameter(Context& c, std::string_view name) {
  return c.b.cast(c.tensor(name), DType::kFloat64);
}

bool is_empty(Context& c) {
  Sizes shape = c.out_shape();
  if (!common::element_count(shape).is_constant(0)) return false;
  c.set(c.b.full(c.out_dtype(), shape, 0));
  return true;
}

// ---- Gamma -----------------------------------------------------------------------------------

double least_normal(DType d) {
  switch (d) {
    case DType::kFloat64:
      return std::numeric_limits<double>::min();
    case DType::kFloat16:
      return 0x1p-14;
    default:
      return std::numeric_limits<float>::min();
  }
}

// The logarithm of gamma numbers with the given shape parameters: Marsaglia and Tsang, "A simple
// method for generating gamma variables" (2000). Below 1 a number with a parameter greater by one,
// times a power of another uniform number.
NodeId log_gamma_numbers(Context& c, NodeId alpha) {
  RandomAttempts draw(c, c.b.shape(alpha), kGammaAttempts, c.out_dtype() == DType::kFloat64);
  NodeId own = c.b.unsqueeze(alpha, c.b.rank(alpha));
  NodeId is_small = less(c, own, 1);
  NodeId d = add(c, c.b.select(is_small, add(c, own, 1.0), own), -1.0 / 3);
  NodeId length = root(c, mul(c, logarithm(c, draw.number(0)), -2.0));
  NodeId x = mul(c, length, c.b.unary(UnaryOp::kSin, mul(c, draw.number(1), 2 * M_PI)));
  NodeId base = add(c, div(c, x, root(c, mul(c, d, 9.0))), 1.0);
  NodeId v = mul(c, mul(c, base, base), base);
  // Of a negative v a NaN, which is not accepted.
  NodeId bound = mul(c, d, add(c, sub(c, logarithm(c, v), v), 1.0));
  NodeId accepted = c.b.binary(BinaryOp::kLess, logarithm(c, draw.number(2)),
                               add(c, mul(c, mul(c, x, x), 0.5), bound));
  NodeId power = div(c, logarithm(c, draw.number(3)), own);
  NodeId log = logarithm(c, mul(c, d, v));
  return draw.first(c.b.select(is_small, add(c, log, power), log), accepted);
}

void standard_gamma(Context& c) {
  if (is_empty(c)) return;
  NodeId x = exponential(c, log_gamma_numbers(c, parameter(c, "self")));
  c.result(maximum(c, x, least_normal(c.out_dtype())));
}

// Gamma numbers over their sum. As logarithms: those of small parameters have no float.
void sample_dirichlet(Context& c) {
  if (is_empty(c)) return;
  NodeId logs = log_gamma_numbers(c, parameter(c, "self"));
  NodeId shares = softmax(c, logs, c.b.rank(logs) - 1);
  const DType d = c.out_dtype();
  const double below_one = d == DType::kFloat64 ? 1 - 0x1p-53 : 1 - 0x1p-24;
  c.result(minimum(c, maximum(c, shares, least_normal(d)), below_one));
}

// ---- Counts ----------------------------------------------------------------------------------

// 0, 1, ... along a new last axis.
NodeId counts(Context& c) { return c.b.iota(DType::kFloat64, Expr(kTable)); }

// log k! of the counts.
NodeId log_factorials(Context& c) {
  std::array<double, kTable> values{};
  for (size_t k = 0; k < values.size(); ++k) values[k] = std::lgamma(static_cast<double>(k) + 1);
  auto view = std::as_bytes(std::span(values));
  return c.b.constant(DType::kFloat64, {kTable}, common::Bytes(view.begin(), view.end()));
}

// The count that a uniform number is the place of, among probabilities as logarithms.
NodeId inverted(Context& c, const RandomAttempts& draw, NodeId log_probabilities) {
  const int axis = c.b.rank(log_probabilities) - 1;
  NodeId sums = c.b.scan(ScanOp::kSum, exponential(c, log_probabilities), axis);
  return c.b.cast(place_among(c, draw.one_more(), sums), DType::kFloat64);
}

// What Hoermann's transformed rejection makes of two uniform numbers. "The transformed rejection
// method for generating Poisson random variables" (1993), algorithm PTRS, and "The generation of
// binomial random variates" (1993), algorithm BTRS.
struct Transformed {
  NodeId k = 0;         // the count that is proposed
  NodeId is_inner = 0;  // where V below a bound suffices
  NodeId is_outer = 0;  // where it is refused at once
  NodeId log_v = 0;     // log(V / (a / us^2 + b))
};
Transformed transform(Context& c, const RandomAttempts& draw, NodeId a, NodeId b, NodeId centre) {
  NodeId u = add(c, draw.number(0), -0.5), v = draw.number(1);
  NodeId us = minus(c, 0.5, c.b.unary(UnaryOp::kAbs, u));
  NodeId slope = add(c, div(c, mul(c, a, 2.0), us), b);
  Transformed t;
  t.k = c.b.unary(UnaryOp::kFloor, add(c, mul(c, slope, u), centre));
  t.is_inner = at_most(c, number(c, 0.07), us);
  NodeId is_thin = both(c, less(c, us, 0.013), c.b.binary(BinaryOp::kLess, us, v));
  t.is_outer = either(c, less(c, t.k, 0), is_thin);
  t.log_v = logarithm(c, div(c, v, add(c, div(c, a, mul(c, us, us)), b)));
  return t;
}

NodeId last_axis_of(Context& c, NodeId x) { return c.b.unsqueeze(x, c.b.rank(x)); }

// PTRS, for means from 10 on.
NodeId large_poisson(Context& c, const RandomAttempts& draw, NodeId mean) {
  NodeId m = last_axis_of(c, maximum(c, mean, kSmallMean));
  NodeId b = add(c, mul(c, root(c, m), 2.53), 0.931);
  NodeId a = add(c, mul(c, b, 0.02483), -0.059);
  NodeId inverse_alpha = add(c, over(c, 1.1328, add(c, b, -3.4)), 1.1239);
  NodeId vr = minus(c, 0.9277, over(c, 3.6224, add(c, b, -2.0)));
  Transformed t = transform(c, draw, a, b, add(c, m, 0.43));
  NodeId inner = both(c, t.is_inner, at_most(c, draw.number(1), vr));
  NodeId log = sub(c, sub(c, mul(c, t.k, logarithm(c, m)), m), lgamma_of_next(c, t.k));
  NodeId is_below = at_most(c, add(c, t.log_v, logarithm(c, inverse_alpha)), log);
  return draw.first(t.k, either(c, inner, both(c, logical_not(c, t.is_outer), is_below)));
}

void poisson(Context& c) {
  if (is_empty(c)) return;
  NodeId mean = parameter(c, "self");
  RandomAttempts draw(c, c.b.shape(mean), kCountAttempts, false);
  NodeId small = last_axis_of(c, mean);
  NodeId log = logarithm(c, maximum(c, small, least_normal(DType::kFloat64)));
  NodeId logs = sub(c, sub(c, mul(c, counts(c), log), small), log_factorials(c));
  c.result(
      c.b.select(less(c, mean, kSmallMean), inverted(c, draw, logs), large_poisson(c, draw, mean)));
}

// BTRS of `trials` with a probability of at most 1/2, for means from 10 on.
NodeId large_binomial(Context& c, const RandomAttempts& draw, NodeId trials, NodeId p) {
  NodeId n = last_axis_of(c, maximum(c, trials, 2 * kSmallMean));
  NodeId share = last_axis_of(c, p);
  NodeId least = div(c, number(c, kSmallMean), n);  // where another branch counts
  share = c.b.binary(BinaryOp::kMax, share, least);
  NodeId odds = div(c, share, minus(c, 1, share));
  NodeId deviation = root(c, mul(c, mul(c, n, share), minus(c, 1, share)));
  NodeId b = add(c, mul(c, deviation, 2.53), 1.15);
  NodeId a = add(c, add(c, mul(c, b, 0.0248), mul(c, share, 0.01)), -0.0873);
  NodeId alpha = mul(c, add(c, over(c, 5.1, b), 2.83), deviation);
  NodeId mode = c.b.unary(UnaryOp::kFloor, mul(c, add(c, n, 1.0), share));
  Transformed t = transform(c, draw, a, b, add(c, mul(c, n, share), 0.5));
  NodeId vr = minus(c, 0.92, over(c, 4.2, b));
  NodeId inner = both(c, t.is_inner, at_most(c, draw.number(1), vr));
  // The logarithm of the count's probability over the mode's.
  auto ways = [&](NodeId k) {
    return add(c, lgamma_of_next(c, k), lgamma_of_next(c, sub(c, n, k)));
  };
  NodeId log = add(c, sub(c, ways(mode), ways(t.k)), mul(c, sub(c, t.k, mode), logarithm(c, odds)));
  NodeId is_below = at_most(c, add(c, t.log_v, logarithm(c, alpha)), log);
  NodeId outer = either(c, less(c, t.k, 0), c.b.binary(BinaryOp::kLess, n, t.k));
  return draw.first(t.k, either(c, inner, both(c, logical_not(c, outer), is_below)));
}

// log of k of n, for counts up to n.
NodeId small_binomial(Context& c, const RandomAttempts& draw, NodeId trials, NodeId p) {
  NodeId n = last_axis_of(c, trials), share = last_axis_of(c, p), k = counts(c);
  NodeId left = maximum(c, sub(c, n, k), 0);
  NodeId log = logarithm(c, maximum(c, share, least_normal(DType::kFloat64)));
  NodeId rest = c.b.unary(UnaryOp::kLog1p, c.b.unary(UnaryOp::kNeg, share));
  NodeId ways = sub(c, sub(c, lgamma_of_next(c, n), log_factorials(c)), lgamma_of_next(c, left));
  NodeId logs = add(c, ways, add(c, mul(c, k, log), mul(c, left, rest)));
  NodeId never = number(c, -std::numeric_limits<double>::infinity());
  logs = c.b.select(c.b.binary(BinaryOp::kLess, n, k), never, logs);
  return c.b.binary(BinaryOp::kMin, inverted(c, draw, logs), trials);
}

void binomial(Context& c) {
  if (is_empty(c)) return;
  Sizes shape = c.out_shape();
  NodeId trials = c.b.expand(parameter(c, "count"), shape);
  NodeId given = c.b.expand(parameter(c, "prob"), shape);
  // Failures are counted where they are fewer.
  NodeId is_likely = c.b.binary(BinaryOp::kLess, number(c, 0.5), given);
  NodeId p = c.b.select(is_likely, minus(c, 1, given), given);
  RandomAttempts draw(c, shape, kCountAttempts, false);
  NodeId is_small = less(c, mul(c, trials, p), kSmallMean);
  NodeId k =
      c.b.select(is_small, small_binomial(c, draw, trials, p), large_binomial(c, draw, trials, p));
  c.result(c.b.select(is_likely, sub(c, trials, k), k));
}

}  // namespace

void add_rejection_operators(OperatorTable* t) {
  t->add("aten._standard_gamma", standard_gamma);
  t->add("aten._sample_dirichlet", sample_dirichlet);
  t->add("aten.poisson", poisson);
  t->add("aten.binomial", binomial);
}

}  // namespace clients
