// Offsets as sums of a stride for each index, as the copy engine takes tensors.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/expr/expr.h"

namespace common {

// base + strides[0] * indices[0] + ..., where neither uses an index: 3 + 8*i0 + i1 has the base 3
// and the strides 8 and 1.
struct AffineOffset {
  Expr base;
  std::vector<Expr> strides;  // by index
};

// By affine_form(), of indices with any numbers. None where the offset is no such sum, or has other
// indices.
std::optional<AffineOffset> affine_offset(const Expr& offset, const std::vector<Expr>& indices);

}  // namespace common
