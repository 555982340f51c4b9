// Series that the translators of special functions share.
//
// Their coefficients are Chebyshev interpolants and Taylor series worked out with 45 digits from
// the formula that stands at each table, cut where terms fall below 2^-58 of the greatest.
#pragma once

#include <span>

#include "clients/pt2/aten/translate_math.h"

namespace clients {

// Two arguments, tensors or numbers, as floats of their common shape.
struct FloatPair {
  NodeId a = 0;
  NodeId b = 0;
};
FloatPair float_pair(Context& c, std::string_view first, std::string_view second);

// The sum of coefficients[k] T_k(t), where t runs over [-1, 1] as x runs over [low, high]
// (Clenshaw's recurrence). Terms too small for x's dtype are left out.
NodeId chebyshev(Context& c, NodeId x, double low, double high,
                 std::span<const double> coefficients);
// coefficients[0] + coefficients[1] x + ..., for |x| up to about 1.
NodeId polynomial(Context& c, NodeId x, std::span<const double> coefficients);

NodeId equal(Context& c, NodeId x, double value);
// `value` where x is `special`, else `otherwise`.
NodeId patch(Context& c, NodeId x, double special, double value, NodeId otherwise);
// The modified Bessel function of the first kind and order 0, of a float32 or float64 value.
NodeId bessel_i0(Context& c, NodeId x);
// number / x
NodeId over(Context& c, double number, NodeId x);

}  // namespace clients
