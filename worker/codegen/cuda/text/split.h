// Results that several blocks compute together, so that few long sums keep a large GPU busy: each
// block leaves what it has in its scratch memory, and the last one to finish puts all of it
// together in the blocks' order.
#pragma once

#include <string>
#include <vector>

#include "common/ir/expr/expr.h"
#include "common/ir/hlir/graph.h"

namespace worker {

// Of a large GPU; where there are fewer, the choices made for so many change little.
inline constexpr int64_t kCudaProcessors = 132;

// How many blocks should share each of `units` results that take `length` steps, `step` of which
// are the least for a block: `wanted` where it is not 0, otherwise as many as fill a large GPU
// once.
int64_t cuda_splits(const common::Expr& units, const common::Expr& length, int64_t step,
                    int64_t wanted, const std::vector<common::SymbolRange>& symbols);

// Lines that give this block its own steps `begin` to `end` of those from `lo` to `hi`, a multiple
// of `step`, and end it where none are left for it. `parts` blocks go on, at least one; this is
// number `split`, the C expression `block` modulo `splits`.
std::string cuda_split_range(int64_t splits, const std::string& lo, const std::string& hi,
                             int64_t step, const std::string& block = "blockIdx.x");

// Ends all blocks but the last of `parts` that come here.
std::string cuda_split_join(int64_t splits);

}  // namespace worker
