#include "common/ir/expr/expr_size.h"

#include <cmath>

namespace common {
namespace {

// Far enough below 2 to the 63rd that the roundings of the sums below do not matter.
constexpr double kNumberMax = 0x1p62;

// The sum of the numbers, all taken as positive.
double magnitude(const Expr& expr) {
  double sum = std::abs(static_cast<double>(expr.sum_constant()));
  for (const Expr::Term& term : expr.terms()) {
    sum += std::abs(static_cast<double>(term.coefficient));
  }
  return sum;
}

void count(const Expr& expr, size_t& size) {
  if (++size > 2 * kExprSizeMax || expr.is_constant()) return;
  switch (expr.kind()) {
    case ExprKind::kVar:
      return;
    case ExprKind::kSum:
      for (const Expr::Term& term : expr.terms()) {
        ++size;
        for (const Expr& factor : term.factors) count(factor, size);
      }
      return;
    default:
      count(expr.left(), size);
      count(expr.right(), size);
  }
}

}  // namespace

size_t written_size(const Expr& expr) {
  size_t size = 0;
  count(expr, size);
  return size;
}

bool product_is_small(const Expr& a, const Expr& b) {
  size_t a_terms = a.terms().size() + 1, b_terms = b.terms().size() + 1;
  return a_terms * written_size(b) + b_terms * written_size(a) <= 2 * kExprSizeMax;
}

bool pair_is_small(const Expr& a, const Expr& b) {
  return written_size(a) + written_size(b) <= kExprSizeMax;
}

bool sum_fits(const Expr& a, const Expr& b) { return magnitude(a) + magnitude(b) < kNumberMax; }

bool product_fits(const Expr& a, const Expr& b) { return magnitude(a) * magnitude(b) < kNumberMax; }

}  // namespace common
