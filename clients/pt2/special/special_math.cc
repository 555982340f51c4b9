#include "clients/pt2/special/special_math.h"

#include <algorithm>
#include <cmath>

namespace clients {
namespace {

// How many leading terms matter in float32: what is left out is below 2^-30 of the greatest.
size_t needed(DType dtype, std::span<const double> coefficients) {
  size_t n = coefficients.size();
  if (dtype == DType::kFloat64) return n;
  double greatest = 0;
  for (double value : coefficients) greatest = std::max(greatest, std::abs(value));
  while (n > 1 && std::abs(coefficients[n - 1]) < greatest * 0x1p-30) --n;
  return n;
}

}  // namespace

FloatPair float_pair(Context& c, std::string_view first, std::string_view second) {
  Operand a = operand(c, first);
  Operand b = operand(c, second);
  DType d = float_dtype(promote(c, {a, b}));
  FloatPair out{as(c, a, d), as(c, b, d)};
  auto shape = c.b.broadcast(c.b.shape(out.a), c.b.shape(out.b));
  if (!shape) c.refuse("the operands do not broadcast");
  return {c.b.expand(out.a, *shape), c.b.expand(out.b, *shape)};
}

NodeId chebyshev(Context& c, NodeId x, double low, double high,
                 std::span<const double> coefficients) {
  double scale = 2 / (high - low);
  NodeId t = add(c, mul(c, x, scale), -(high + low) / (high - low));
  size_t n = needed(c.b.dtype(x), coefficients);
  if (n == 1) return number_like(c, x, coefficients[0]);
  NodeId twice = add(c, t, t);
  std::optional<NodeId> before;
  NodeId last = number_like(c, x, coefficients[n - 1]);
  for (size_t k = n - 1; k-- > 0;) {
    NodeId next = add(c, mul(c, k == 0 ? t : twice, last), coefficients[k]);
    if (before) next = sub(c, next, *before);
    before = last;
    last = next;
  }
  return last;
}

NodeId polynomial(Context& c, NodeId x, std::span<const double> coefficients) {
  size_t n = needed(c.b.dtype(x), coefficients);
  NodeId sum = number_like(c, x, coefficients[n - 1]);
  for (size_t k = n - 1; k-- > 0;) sum = add(c, mul(c, sum, x), coefficients[k]);
  return sum;
}

NodeId equal(Context& c, NodeId x, double value) {
  return c.b.binary(BinaryOp::kEqual, x, number_like(c, x, value));
}

NodeId patch(Context& c, NodeId x, double special, double value, NodeId otherwise) {
  return c.b.select(equal(c, x, special), number_like(c, otherwise, value), otherwise);
}

NodeId over(Context& c, double number, NodeId x) { return div(c, number_like(c, x, number), x); }

}  // namespace clients
