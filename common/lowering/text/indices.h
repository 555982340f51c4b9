// Indices of tensors as variables of the code that is written.
#pragma once

#include <string>
#include <vector>

#include "common/ir/expr/indices.h"

namespace common {

class CodeWriter;

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
