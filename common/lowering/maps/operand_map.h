// Operands of contractions as the copy engine reads them: in boxes, by a tensor map.
#pragma once

#include <optional>
#include <vector>

#include "common/lowering/body/contraction.h"
#include "common/plan/tensor_map.h"

namespace common {

// The map's dimensions are k and the side's own axis, in the order of memory, then the runs of k
// where it has such, then those of the batch's labels along which the operand changes.
struct OperandMap {
  TensorMap map;
  bool along_k = false;
  int64_t k_run = 0;           // elements of k that follow each other; 0: all
  std::vector<size_t> labels;  // of the batch's
};

// Blocks of `own` elements along the operand's own axis and `depth` along k in boxes, with chunks
// of 16 bytes permuted within 128, as warpgroup products read them. A box has 64 elements in the
// fastest dimension, and in the other what a block has, over `parts` of the blocks that share it.
// None where the operand is computed or gathered, or where it does not lie in
// memory by one stride for each axis, of 16 bytes but for the fastest.
std::optional<OperandMap> operand_map(const Contraction& contraction, Side side, int64_t own,
                                      int64_t depth, int64_t parts = 1);

// The right operand of a convolution without groups, likewise. Of k's axes that number `channel` is
// the map's second or first dimension, and the others are dimensions of their own behind it, in
// their order.
std::optional<OperandMap> weight_map(const Contraction& contraction, int channel, int64_t own,
                                     int64_t depth, int64_t parts = 1);

}  // namespace common
