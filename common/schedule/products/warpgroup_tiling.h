// Blocks of a product of halves by warpgroups (wgmma, compute capability 9.0a).
#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/ir/llir/tiling.h"
#include "common/schedule/product_blocks.h"
#include "common/schedule/products/product_tiles.h"
#include "common/schedule/template_fit.h"

namespace common {

inline constexpr int64_t kWarpgroupRows = 64;   // of a warpgroup
inline constexpr int64_t kWarpgroupDepth = 64;  // of a step: 128 bytes of k, permuted as one

struct WarpgroupTiling {
  static constexpr std::string_view kForm = "warpgroup_tile";
  int64_t rows = 128, columns = 128, stages = 4;
  int64_t cluster = 1;     // blocks that copy the right operand together, below each other
  bool is_beside = false;  // or the left one, beside each other
  bool is_copied = false;  // the copy engine brings both operands, by tensor maps
  // Of a convolution's channels, parts of which a block keeps the pixels for all taps; 0: each tap
  // copies its pixels.
  int64_t patches = 0;
  int64_t resident = 1;  // blocks that a multiprocessor is to hold at once
  Expr splits = 1;       // blocks that share a k
  int64_t stores = 4;    // results that a thread stores together, each of up to 16 bytes

  ProductTile tile() const { return {rows, columns, cluster, is_beside}; }
  int64_t threads() const { return rows / kWarpgroupRows * 128; }  // that multiply

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("columns", t.columns);
    visit("stages", t.stages);
    visit("cluster", t.cluster);
    visit("beside", t.is_beside);
    visit("copied", t.is_copied);
    visit("patches", t.patches);
    visit("resident", t.resident);
    visit("splits", t.splits);
    visit("stores", t.stores);
  }
};

// The schedule's warpgroups, stages, clusters and splits, or what suits the sizes; none where
// single warps multiply.
std::optional<WarpgroupTiling> choose_warpgroup_tiling(const Contraction& contraction,
                                                       const Schedule& schedule,
                                                       const ProductMachine& machine);
// Of paired products, likewise but for splits; none where the machine has no warpgroups.
std::optional<WarpgroupTiling> choose_warpgroup_tiling(const PairedProducts& pair,
                                                       const Schedule& schedule,
                                                       const ProductMachine& machine);
// Blocks of `rows` by `columns`, for operands that threads copy or compute.
WarpgroupTiling plain_warpgroup_tiling(int64_t rows, int64_t columns, const Schedule& schedule);

// Pixels of a block's patch; 0 where the contraction is no convolution that has patches.
int64_t patch_pixels(const Contraction& contraction, int64_t rows);

// kInvalidInput says what such operands or the machine's memory do not allow.
Status verify(const WarpgroupTiling& tiling, const Contraction& contraction);
Status verify(const WarpgroupTiling& tiling, const PairedProducts& pair);

}  // namespace common
