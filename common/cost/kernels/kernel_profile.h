// What one launch of a kernel moves and computes, counted by walking its body as the loops that a
// generator makes of it would.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/cost/loop_work.h"
#include "common/ir/llir/llir.h"
#include "common/schedule/sort_blocks.h"
#include "common/schedule/tile_shape.h"

namespace common {

// A loop that the walk of a body met; the schedule says how many steps of its outputs' loops go at
// once.
struct WalkedLoop : LoopWork {
  bool is_repeated = false;    // was computed in another loop over the same row: it may be kept
  bool is_by_columns = false;  // of a skinny product: again for each column, unless scheduled
};

// A contraction as a tile sees it: the output's last axis is among its columns.
struct ContractionSize {
  double batch = 1, rows = 1, columns = 1, steps = 1;
  double row_operations = 0;  // that compute an element of a row, where groups are
  double groups = 0;          // of rows, which multiply matrices of their own; 0: they share one
  bool is_wide = false;       // elements of eight bytes
  bool is_short = false;      // both operands are bfloat16
  bool is_half = false;  // or both were of 16 bits until they were cast, as tensor cores take them
  bool has_border = false;  // an operand is read through a view that is not valid everywhere
  bool is_copied = false;   // these are inputs as they lie in memory, or views of such
};

struct AttentionSize {
  double rows = 0;  // that share keys and values; 0: it is none
  // A row is normalised before the product, so that its keys are read twice.
  bool normalises_first = false;
  // It is so because probabilities are rounded to the values' type; many rows may be normalised
  // after the product nevertheless.
  bool rounds = false;
  bool is_half = false;  // keys and values were of 16 bits until they were cast
  // 0: not known.
  double batch = 0, keys = 0, depth = 0, width = 0;
  double seen = 1;  // the share of the keys that a row sees
  // That compute an element; 0: it is read.
  double query_operations = 0, key_operations = 0, value_operations = 0;
};

// Lines that a kernel sorts, and the blocks that sort them on a GPU.
struct SortSize {
  double lines = 0, length = 0;
  SortBlocks blocks;
};

// How often a kernel does what takes time by itself.
struct OperationCounts {
  double simple_ops = 0;       // additions, comparisons, conversions: what vector units do at once
  double row_ops = 0;          // summed along rows: each waits for the one before
  double hard_ops = 0;         // exponentials, divisions, powers
  double contraction_ops = 0;  // multiply-adds
  double random_reads = 0;     // gathered rows, scattered elements
  double folded_reads = 0;     // elements whose neighbours in a row are found by division
  double sort_steps = 0;       // elements of a sort that are moved by one place or counted
  double sort_turns = 0;       // and branches of which nobody knows before where they lead
  double transform_steps = 0;  // of Fourier transforms: points times the logarithm of a row's
  double transform_products = 0;  // what they are where no template splits them
};

struct KernelProfile : OperationCounts {
  double bytes = 0;             // of all buffers, each once
  double moved_bytes = 0;       // of those what is read and written (common/ir/llir/body_traffic.h)
  double longest_sum = 0;       // elements of the longest reduction
  double row_sums = 0;          // reductions along rows that begin and end; short ones count less
  double lane_blocks = 0;       // rows of sums taken side by side
  ContractionSize contraction;  // the last, if there is one
  AttentionSize attention;      // if it is one
  SortSize sort;                // likewise
  std::optional<TileShape> tile;  // of a tile that tensor cores of a GPU multiply
  std::vector<WalkedLoop> loops;  // the same operations, loop by loop
};
// At some sizes of the kernel's symbols, and how much the time at these counts.
struct WeightedProfile {
  KernelProfile profile;
  double weight = 1;
};

// symbols[k] is the value of the body's s<k>. Values that are needed at every step of an inner loop
// are counted as often as they are computed.
KernelProfile profile_kernel(const Kernel& kernel, const std::vector<int64_t>& symbols);

}  // namespace common
