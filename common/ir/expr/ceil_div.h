// How many blocks cover an axis.
#pragma once

#include "common/ir/expr/expr.h"

namespace common {

// a / b, rounded up.
inline Expr ceil_div(const Expr& a, const Expr& b) { return floor_div(a + (b - Expr(1)), b); }

}  // namespace common
