// Expressions over indices i0, i1, ... at places that are expressions themselves.
#pragma once

#include <vector>

#include "common/ir/expr/expr.h"

namespace common {

// `e` with values[k] for index k; every index of `e` must have one.
//   with_indices(i0 * 4 + i1, {i7, 2}) = i7 * 4 + 2
Expr with_indices(const Expr& e, const std::vector<Expr>& values);
std::vector<Expr> with_indices(const std::vector<Expr>& es, const std::vector<Expr>& values);

}  // namespace common
