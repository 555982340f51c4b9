// Operands that a register tile reads where they lie in memory, so that nothing is packed for it.
#pragma once

#include <optional>

#include "worker/codegen/contraction.h"

namespace worker {

// How many neighbours along k of the left operand lie side by side in an input of the product's own
// type, whatever the row, from every multiple of that number on: kWhole, or the size of k's last
// labels. 0: no such runs.
int64_t rows_lie_in_place(const Contraction& product);

// Of the right operand: whether `lanes` columns lie side by side in an input of the product's own
// type, from every multiple of `lanes` on. The last of them may reach beyond the columns, though
// not beyond the input. Gives the distance between neighbours along k, in elements.
std::optional<int64_t> columns_lie_in_place(const Contraction& product, int64_t lanes);

}  // namespace worker
