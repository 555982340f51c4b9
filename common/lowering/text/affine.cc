#include "common/lowering/text/affine.h"

#include <algorithm>

#include "common/ir/hlir/view.h"

namespace common {

std::optional<AffineOffset> affine_offset(const Expr& offset, const std::vector<Expr>& indices) {
  int rank = 0;
  for (const Expr& index : indices) rank = std::max(rank, index.as_var()->id + 1);
  auto form = affine_form(offset, rank);
  if (!form) return std::nullopt;
  AffineOffset found{form->offset, {}};
  for (const Expr& index : indices) {
    Expr& stride = form->strides[static_cast<size_t>(index.as_var()->id)];
    found.strides.push_back(stride);
    stride = 0;
  }
  bool has_others = std::any_of(form->strides.begin(), form->strides.end(),
                                [](const Expr& stride) { return !stride.is_constant(0); });
  if (has_others) return std::nullopt;
  return found;
}

}  // namespace common
