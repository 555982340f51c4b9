#include "common/ir/expr_size.h"

namespace common {
namespace {

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

}  // namespace common
