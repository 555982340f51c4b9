// Positions in tensors as one expression per axis, and as offsets in row-major memory.
#pragma once

#include <vector>

#include "common/ir/expr/expr.h"

namespace common {

using Indices = std::vector<Expr>;

// An index for each label of a contraction; 0 until it is given.
class LabelIndices {
 public:
  explicit LabelIndices(size_t labels) : values_(labels, Expr(0)) {}
  void give(const std::vector<int>& labels, const Indices& values);
  Indices of(const std::vector<int>& labels) const;

 private:
  Indices values_;
};

// The row-major position of `indices` in `shape`.
Expr linear_position(const Indices& indices, const Shape& shape);
// The indices of the element of `shape` at row-major position `flat`; the first is not reduced.
Indices unfold(const Shape& shape, const Expr& flat);

}  // namespace common
