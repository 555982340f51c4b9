// Positions in tensors as one expression per axis, and as offsets in row-major memory.
#pragma once

#include <string>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

class CodeWriter;

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
// Declares, in the innermost scope, an index for each axis of `shape` at row-major position `flat`;
// they are named `name`0, `name`1, ... A single axis' index is `flat` itself. `often`: the code
// runs so often that what it costs counts.
Indices declare_positions(CodeWriter& writer, const std::string& name, const Shape& shape,
                          const Expr& flat, bool often = false);
// How far `offset` moves when index `id` moves by one; a large number when that is not a constant.
int64_t stride_along(const Expr& offset, int id);
// The indices with `replacement` for index `id`.
Indices with_index(const Indices& indices, int id, const Expr& replacement);
// The indices of a reduction's operand, of `rank` axes, whose value is at `indices`; 0 on the
// reduced axes.
Indices operand_indices(const std::vector<int>& reduced, size_t rank, const Indices& indices);

}  // namespace common
