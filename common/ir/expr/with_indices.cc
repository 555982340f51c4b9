#include "common/ir/expr/with_indices.h"

namespace common {

Expr with_indices(const Expr& e, const std::vector<Expr>& values) {
  return e.substitute([&](Var v) -> Expr {
    return v.kind == Var::Kind::kIndex ? values[static_cast<size_t>(v.id)] : Expr::var(v);
  });
}

std::vector<Expr> with_indices(const std::vector<Expr>& es, const std::vector<Expr>& values) {
  std::vector<Expr> result;
  result.reserve(es.size());
  for (const Expr& e : es) result.push_back(with_indices(e, values));
  return result;
}

}  // namespace common
