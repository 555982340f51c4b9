// How many blocks of a GPU's threads share a result, so that few long sums keep a large GPU busy.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/expr/bounds.h"
#include "common/ir/expr/expr.h"

namespace common {

// Multiprocessors of a large GPU (H100). On smaller ones the same choices are nearly as good.
inline constexpr int64_t kGpuProcessors = 132;

// How many blocks should share each of `units` results that take `length` steps, `step` of which
// are the least for a block: `wanted` where it is not 0, otherwise as many as fill a large GPU
// once.
int64_t gpu_splits(const Expr& units, const Expr& length, int64_t step, int64_t wanted,
                   const std::vector<SymbolRange>& symbols);

}  // namespace common
