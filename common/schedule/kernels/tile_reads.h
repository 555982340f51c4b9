// How the operands and the output of a register tile lie in memory, and which operands it reads
// there, so that nothing is packed for them.
#pragma once

#include <cstdint>
#include <optional>

#include "common/schedule/kernels/tile_steps.h"

namespace common {

inline constexpr int64_t kWholeRow = INT64_MAX;

// Where an element of the operand is read that lies in an input: as the steps' own type or, of
// float32 columns, as bfloat16, which is made wider as it is read.
std::optional<PlainRead> tile_read(const Contraction& product, const TileSteps& steps, Side side,
                                   const Indices& at, BodyEmitter& emitter);

// How many steps of the left operand lie side by side in an input of the steps' own type, whatever
// the row, from every multiple of that number on: kWholeRow, or the size of k's last labels. 0: no
// such runs. The last half pair of a whole row is none that can be read in one.
int64_t rows_lie_in_place(const Contraction& product, const TileSteps& steps);

// Whether the runs of every row begin at the same distances from the row's first element, as those
// of windows do that lie in an image with its border.
bool runs_lie_alike(const Contraction& product, const TileSteps& steps);

// Of the right operand: whether a step's elements of `lanes` columns lie side by side in an input
// (see tile_read), from every multiple of `lanes` on. The last of them may reach beyond the
// columns and beyond half a pair, though not beyond the input. Gives the distance between
// neighbouring steps, in steps.
std::optional<int64_t> columns_lie_in_place(const Contraction& product, const TileSteps& steps,
                                            int64_t lanes);

// How an operand that is packed lies in memory.
struct OperandMemory {
  bool along_k = false;   // it runs along k, and not along its own axis
  bool own_runs = false;  // its own flat index would be divided again and again
  bool k_runs = false;    // so would k's
};
OperandMemory operand_memory(const Contraction& product, const TileSteps& steps, Side side);

// Whether rows of neighbouring products of the batch lie within the same row of what is read, as
// those of groups of channels do.
bool products_lie_side_by_side(const Contraction& product, const TileSteps& steps);

// Whether a flat column index would be divided to find where the product's element lies.
bool output_divides_columns(const Contraction& product);

}  // namespace common
