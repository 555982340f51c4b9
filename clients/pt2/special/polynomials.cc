// Orthogonal polynomials of a degree n that may be a tensor.
//
// All follow a recurrence in the degree. A constant degree is that many steps. A degree that only
// the data knows is a step for each degree that its dtype allows, each kept where n is as great;
// where the dtype allows too many, Chebyshev polynomials have closed forms, Hermite polynomials
// end where PyTorch ends them, and the others are refused.
#include <algorithm>
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/special/special_math.h"

namespace clients {
namespace {

enum class Family { kFirst, kSecond, kThird, kFourth, kHermite, kHermiteE, kLaguerre, kLegendre };
bool is_chebyshev(Family family) { return family <= Family::kFourth; }

NodeId degree_one(Context& c, Family family, NodeId x) {
  NodeId twice = add(c, x, x);
  switch (family) {
    case Family::kSecond:
    case Family::kHermite:
      return twice;
    case Family::kThird:
      return add(c, twice, -1.0);
    case Family::kFourth:
      return add(c, twice, 1.0);
    case Family::kLaguerre:
      return sub(c, number_like(c, x, 1), x);
    default:
      return x;
  }
}

// Degree k from k - 1 and k - 2 (Abramowitz & Stegun 22.7).
NodeId next_degree(Context& c, Family family, NodeId x, double k, NodeId last, NodeId before) {
  switch (family) {
    case Family::kHermite:
      return mul(c, sub(c, mul(c, x, last), mul(c, before, k - 1)), 2.0);
    case Family::kHermiteE:
      return sub(c, mul(c, x, last), mul(c, before, k - 1));
    case Family::kLaguerre: {
      NodeId factor = sub(c, number_like(c, x, 2 * k - 1), x);
      NodeId sum = sub(c, mul(c, factor, last), mul(c, before, k - 1));
      return div(c, sum, number_like(c, sum, k));
    }
    case Family::kLegendre: {
      NodeId sum = sub(c, mul(c, mul(c, x, 2 * k - 1), last), mul(c, before, k - 1));
      return div(c, sum, number_like(c, sum, k));
    }
    default:
      return sub(c, mul(c, add(c, x, x), last), before);
  }
}

// Degrees 0 to `highest`.
std::vector<NodeId> degrees(Context& c, Family family, NodeId x, int highest) {
  std::vector<NodeId> out = {c.b.full(c.b.dtype(x), c.b.shape(x), 1)};
  if (highest >= 1) out.push_back(degree_one(c, family, x));
  for (int k = 2; k <= highest; ++k) {
    out.push_back(next_degree(c, family, x, k, out[out.size() - 1], out[out.size() - 2]));
  }
  return out;
}

// -1 where x is negative and n odd, else 1.
NodeId parity_sign(Context& c, NodeId x, NodeId n) {
  NodeId odd = equal(c, c.b.binary(BinaryOp::kMod, n, number_like(c, n, 2)), 1);
  NodeId flips = c.b.binary(BinaryOp::kAnd, odd, less(c, x, 0));
  return c.b.select(flips, number_like(c, x, -1), number_like(c, x, 1));
}

// With x = cos(t), and hyperbolic functions beyond 1: T = cos(n t), U = sin((n + 1) t) / sin(t),
// V = cos((n + 1/2) t) / cos(t / 2), W = sin((n + 1/2) t) / sin(t / 2) (DLMF 18.5). Below -1,
// T and U have n's parity, V and W change places.
NodeId chebyshev_closed(Context& c, Family family, NodeId x, NodeId n) {
  NodeId size = c.b.unary(UnaryOp::kAbs, x);
  NodeId inside = less(c, size, 1);
  NodeId angle = c.b.unary(UnaryOp::kAcos, x);
  NodeId growth = c.b.unary(UnaryOp::kAcosh, size);
  NodeId sign = parity_sign(c, x, n);
  NodeId negative = less(c, x, 0);
  if (family == Family::kFirst) {
    NodeId within = c.b.unary(UnaryOp::kCos, mul(c, n, angle));
    NodeId beyond = c.b.unary(UnaryOp::kCosh, mul(c, n, growth));
    return c.b.select(inside, within, mul(c, sign, beyond));
  }
  double shift = family == Family::kSecond ? 1 : 0.5;
  NodeId many = add(c, n, shift);
  auto ratio = [&](UnaryOp op, NodeId t) {
    NodeId top = c.b.unary(op, mul(c, many, t));
    return div(c, top, c.b.unary(op, mul(c, t, shift)));
  };
  NodeId within = ratio(family == Family::kThird ? UnaryOp::kCos : UnaryOp::kSin, angle);
  NodeId odd_form = ratio(UnaryOp::kSinh, growth);
  NodeId limit = div(c, many, number_like(c, many, shift));
  odd_form = c.b.select(equal(c, size, 1), limit, odd_form);
  NodeId beyond = odd_form;
  if (family != Family::kSecond) {
    NodeId even_form = ratio(UnaryOp::kCosh, growth);
    beyond = family == Family::kThird ? c.b.select(negative, odd_form, even_form)
                                      : c.b.select(negative, even_form, odd_form);
  }
  return c.b.select(inside, within, mul(c, sign, beyond));
}

// Above these PyTorch gives NaN for Hermite polynomials of float64 and of float32.
constexpr int kMaxSteps = 512;
constexpr int kHermiteLimit = 128;
// Up to which degree Chebyshev polynomials follow the recurrence, which is exact for small
// integers.
constexpr int kByRecurrence = 8;

// The greatest degree that a tensor of the dtype can hold, if that is few.
std::optional<int> greatest_degree(DType dtype) {
  if (dtype == DType::kBool) return 1;
  if (dtype == DType::kInt8) return 127;
  if (dtype == DType::kUint8) return 255;
  return std::nullopt;
}

// `otherwise` is what higher degrees give.
NodeId chosen_degree(Context& c, Family family, NodeId x, NodeId n, int highest, NodeId otherwise) {
  std::vector<NodeId> all = degrees(c, family, x, highest);
  NodeId value = otherwise;
  for (size_t k = 0; k < all.size(); ++k) {
    value = c.b.select(equal(c, n, static_cast<double>(k)), all[k], value);
  }
  return value;
}

NodeId of_unknown_degree(Context& c, Family family, NodeId x, NodeId n, std::optional<int> bound) {
  int hermite_limit = c.b.dtype(x) == DType::kFloat64 ? kMaxSteps : kHermiteLimit;
  bool hermite = family == Family::kHermite || family == Family::kHermiteE;
  if (is_chebyshev(family)) {
    int highest = std::min(bound.value_or(kByRecurrence), kByRecurrence);
    NodeId closed = chebyshev_closed(c, family, x, n);
    return chosen_degree(c, family, x, n, highest, closed);
  }
  if (hermite) {
    int highest = std::min(bound.value_or(hermite_limit), hermite_limit);
    return chosen_degree(c, family, x, n, highest, number_like(c, x, NAN));
  }
  if (!bound) c.refuse("a degree that only the data knows and that its dtype does not bound");
  return chosen_degree(c, family, x, n, *bound, number_like(c, x, NAN));
}

NodeId of_known_degree(Context& c, Family family, NodeId x, double n) {
  NodeId zero = c.b.full(c.b.dtype(x), c.b.shape(x), 0);
  n = std::trunc(n);
  if (!(n >= 0)) return zero;
  bool hermite = family == Family::kHermite || family == Family::kHermiteE;
  double limit = kMaxSteps;
  if (hermite && c.b.dtype(x) == DType::kFloat32) limit = kHermiteLimit;
  if (is_chebyshev(family)) limit = kByRecurrence;
  if (n <= limit) return degrees(c, family, x, static_cast<int>(n)).back();
  if (is_chebyshev(family)) return chebyshev_closed(c, family, x, number_like(c, x, n));
  if (hermite) return add(c, zero, NAN);
  c.refuse("a degree above 512");
}

template <Family family, bool shifted>
void polynomial_of(Context& c) {
  bool known = !c.is_tensor("n") && !c.data_number("n");
  auto [x, n] = float_pair(c, "x", "n");
  if (shifted) x = add(c, add(c, x, x), -1.0);
  if (known) return c.result(of_known_degree(c, family, x, c.scalar("n").value()));
  std::optional<int> bound;
  if (c.is_tensor("n")) bound = greatest_degree(c.b.dtype(c.tensor("n")));
  n = c.b.unary(UnaryOp::kTrunc, n);
  NodeId value = of_unknown_degree(c, family, x, n, bound);
  NodeId zero = number_like(c, x, 0);
  c.result(c.b.select(c.b.binary(BinaryOp::kLessEqual, zero, n), value, zero));
}

}  // namespace

void add_polynomials_operators(OperatorTable* t) {
  t->add("aten.special_chebyshev_polynomial_t", polynomial_of<Family::kFirst, false>);
  t->add("aten.special_chebyshev_polynomial_u", polynomial_of<Family::kSecond, false>);
  t->add("aten.special_chebyshev_polynomial_v", polynomial_of<Family::kThird, false>);
  t->add("aten.special_chebyshev_polynomial_w", polynomial_of<Family::kFourth, false>);
  t->add("aten.special_shifted_chebyshev_polynomial_t", polynomial_of<Family::kFirst, true>);
  t->add("aten.special_shifted_chebyshev_polynomial_u", polynomial_of<Family::kSecond, true>);
  t->add("aten.special_shifted_chebyshev_polynomial_v", polynomial_of<Family::kThird, true>);
  t->add("aten.special_shifted_chebyshev_polynomial_w", polynomial_of<Family::kFourth, true>);
  t->add("aten.special_hermite_polynomial_h", polynomial_of<Family::kHermite, false>);
  t->add("aten.special_hermite_polynomial_he", polynomial_of<Family::kHermiteE, false>);
  t->add("aten.special_laguerre_polynomial_l", polynomial_of<Family::kLaguerre, false>);
  t->add("aten.special_legendre_polynomial_p", polynomial_of<Family::kLegendre, false>);
}

}  // namespace clients
