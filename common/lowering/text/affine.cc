#include "common/lowering/text/affine.h"

namespace common {
namespace {

// The offset at these values of the indices, and 0 for others.
Expr at(const Expr& offset, const std::vector<Expr>& indices, size_t which, int64_t value) {
  return offset.substitute([&](Var v) {
    for (size_t k = 0; k < indices.size(); ++k) {
      if (*indices[k].as_var() == v) return Expr(k == which ? value : 0);
    }
    return Expr::var(v);
  });
}

}  // namespace

std::optional<AffineOffset> affine_offset(const Expr& offset, const std::vector<Expr>& indices) {
  AffineOffset found;
  found.base = at(offset, indices, indices.size(), 0);
  Expr sum = found.base;
  bool is_plain = !found.base.uses_index();
  for (size_t k = 0; k < indices.size(); ++k) {
    found.strides.push_back(at(offset, indices, k, 1) - found.base);
    is_plain = is_plain && !found.strides.back().uses_index();
    sum += found.strides.back() * indices[k];
  }
  if (!is_plain || sum != offset) return std::nullopt;
  return found;
}

}  // namespace common
