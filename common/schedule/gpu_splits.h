// How many blocks of a GPU's threads share a result, so that few long sums keep a GPU busy.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/expr/bounds.h"
#include "common/ir/expr/expr.h"

namespace common {

// The most blocks that may share a result of `length` steps, each with at least `step` of them.
int64_t gpu_splits_max(const Expr& length, int64_t step);
// How many blocks should share each of `units` results that take `length` steps, `step` of which
// are the least for a block: `wanted` where it is not 0, otherwise as many as fill a GPU of so many
// processors once.
int64_t gpu_splits(int64_t units, const Expr& length, int64_t step, int64_t wanted,
                   int64_t processors);
// Of units at the symbols' representative sizes.
int64_t gpu_splits(const Expr& units, const Expr& length, int64_t step, int64_t wanted,
                   const std::vector<SymbolRange>& symbols, int64_t processors);

}  // namespace common
