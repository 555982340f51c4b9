// How large a size expression is when it is written out, so that whoever reads expressions from
// outside can stop before a short text has become a huge one: products of sums multiply, and what
// is shared in memory is not shared by those who walk it.
#pragma once

#include <cstddef>

#include "common/ir/expr/expr.h"

namespace common {

// Of expressions that are read from text; real ones have some tens.
inline constexpr size_t kExprSizeMax = 4096;

// Variables, numbers and operations, each as often as it is written; counts up to about twice
// kExprSizeMax and then stops.
size_t written_size(const Expr& expr);
// Whether the product, multiplied out, and any other operation on the two, stays within the bound.
bool product_is_small(const Expr& a, const Expr& b);
bool pair_is_small(const Expr& a, const Expr& b);
// Whether no number of the sum, or of the product multiplied out, can go beyond 64 bits.
bool sum_fits(const Expr& a, const Expr& b);
bool product_fits(const Expr& a, const Expr& b);

}  // namespace common
