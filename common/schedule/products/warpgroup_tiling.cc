#include "common/schedule/products/warpgroup_tiling.h"

#include <algorithm>

#include "common/cost/gpu_shared_memory.h"
#include "common/ir/llir/wrong_tiling.h"
#include "common/lowering/body/window_operand.h"
#include "common/lowering/maps/operand_map.h"
#include "common/lowering/maps/window_map.h"

namespace common {
namespace {

constexpr int64_t kStagesUsual = 5, kStagesMin = 3, kStagesMax = 8, kPatchStagesMax = 9;
constexpr int64_t kPatchesMax = 2;
// Beside the stages: barriers, and what functions keep for themselves.
constexpr int64_t kOtherBytes = 2048;
constexpr int64_t kRowBytes = kWarpgroupDepth * 2;
constexpr int64_t kThreadsMax = 2048;  // of a multiprocessor
// Paired products keep what belongs to the columns of both: a thread stores fewer results together
// where blocks are so narrow that two share a multiprocessor's registers.
constexpr int64_t kPairStores = 2, kNarrowColumns = 128;

bool has_maps(const Contraction& contraction) {
  constexpr int64_t kBox = kWarpgroupDepth;  // any does
  return operand_map(contraction, Side::kLeft, kBox, kBox).has_value() &&
         operand_map(contraction, Side::kRight, kBox, kBox).has_value();
}

// Of convolutions.
bool has_window_maps(const Contraction& contraction) {
  constexpr int64_t kBox = kWarpgroupDepth;
  return window_maps(contraction, kBox, kBox, kBox).has_value();
}

// Steps that shared memory holds beside `kept` bytes.
int64_t stages_that_fit(const WarpgroupTiling& t, int64_t kept) {
  int64_t bytes = ((t.patches > 0 ? 0 : t.rows) + t.columns) * kRowBytes;
  return (kHopperSharedBytesMax - kOtherBytes - kept) / bytes;
}

// As many stages as asked for, else `usual`, in what a block may have.
int64_t choose_stages(const Schedule& schedule, const WarpgroupTiling& t, int64_t usual) {
  int64_t asked = tile_parameter(schedule, "stages");
  return std::clamp(std::min(asked != 0 ? asked : usual, stages_that_fit(t, 0)),
                    t.is_copied ? 1 : kStagesMin, kStagesMax);
}

// What the schedule asks for. Only the copy engine serves clusters and blocks of 192 rows, whose
// threads have no equal shares of what they would copy.
ProductWish wish_of(const Schedule& schedule, bool is_copied) {
  ProductWish wish = product_wish(tile_parameter(schedule, "warpgroups"),
                                  is_copied ? tile_parameter(schedule, "clusters") : 1,
                                  tile_parameter(schedule, "splits"));
  if (!is_copied && wish.rows == 192) wish.rows = 128;
  return wish;
}

WarpgroupTiling tiling_of(const ProductBlock& block, const Schedule& schedule, bool is_copied) {
  WarpgroupTiling t{block.rows, block.columns, 0, block.cluster, block.is_beside, is_copied};
  t.patches = block.patches;
  // Taps of patches are whole rounds of the stages.
  t.stages = t.patches > 0 ? block.stages
                           : choose_stages(schedule, t, is_copied ? block.stages : kStagesUsual);
  if (is_copied) t.resident = resident_products(block);
  return t;
}

// Of blocks and stages, whatever the operands.
Status verify_blocks(const WarpgroupTiling& t, int64_t kept) {
  if (!is_product_block(t.rows, t.columns, t.cluster) || (t.is_beside && t.cluster == 1)) {
    return wrong_tiling(t, "no blocks of warpgroups are like this");
  }
  int64_t least = t.is_copied ? 1 : kStagesMin, most = t.patches > 0 ? kPatchStagesMax : kStagesMax;
  if (t.stages < least || t.stages > std::min(most, stages_that_fit(t, kept))) {
    return wrong_tiling(t, "stages are out of range");
  }
  if (t.resident < 1 || t.resident * (t.threads() + 32) > kThreadsMax) {
    return wrong_tiling(t, "a multiprocessor holds no such number of blocks");
  }
  if (!are_stores(t.stores)) return wrong_tiling(t, kWrongStores);
  return {};
}

}  // namespace

int64_t patch_pixels(const Contraction& contraction, int64_t rows) {
  auto windows = window_operand(contraction);
  auto grid = windows ? window_grid(*windows) : std::nullopt;
  if (!grid) return 0;
  int64_t taps = 1;
  for (const WindowOperand::Axis& axis : windows->axes) taps *= axis.taps;
  return patch_pixels(*grid, taps, rows);
}

std::optional<WarpgroupTiling> choose_warpgroup_tiling(const PairedProducts& pair,
                                                       const Schedule& schedule,
                                                       const ProductMachine& machine) {
  if (!machine.warpgroups) return std::nullopt;
  auto shapes = priced_tiles(pair);
  if (!shapes) return std::nullopt;
  const Contraction first(pair.body, pair.first), second(pair.body, pair.second);
  ProductWish wish = wish_of(schedule, true);
  wish.has_patches = false;
  wish.may_be_beside = has_maps(first) && has_maps(second);
  const ProductBlock block = product_block(*shapes, wish, machine.processors);
  WarpgroupTiling t{block.rows, block.columns, block.stages, block.cluster, block.is_beside, true};
  t.resident = resident_products(block);
  if (t.columns <= kNarrowColumns) t.stores = kPairStores;
  return t;
}

WarpgroupTiling plain_warpgroup_tiling(int64_t rows, int64_t columns, const Schedule& schedule) {
  ProductBlock block;
  block.rows = rows;
  block.columns = columns;
  block.cluster = 1;
  return tiling_of(block, schedule, false);
}

std::optional<WarpgroupTiling> choose_warpgroup_tiling(const Contraction& contraction,
                                                       const Schedule& schedule,
                                                       const ProductMachine& machine) {
  const TileUnits units =
      tile_units(tile_parameter(schedule, "warpgroups"), tile_parameter(schedule, "block_rows"),
                 tile_parameter(schedule, "block_columns"));
  if (!machine.warpgroups || !has_half_operands(contraction) || units == TileUnits::kWarps) {
    return std::nullopt;
  }
  const bool has_boxes = has_maps(contraction), has_windows = has_window_maps(contraction);
  const bool is_copied = has_boxes || has_windows;
  if (units == TileUnits::kQuicker && !is_copied) return std::nullopt;
  auto shapes = priced_tiles(contraction);
  if (!shapes) return std::nullopt;
  ProductWish wish = wish_of(schedule, is_copied);
  wish.has_patches = has_windows;
  wish.may_be_beside = has_boxes;
  const std::optional<ProductBlock> block =
      units == TileUnits::kQuicker ? quicker_product_block(*shapes, wish, machine.processors)
                                   : product_block(*shapes, wish, machine.processors);
  if (!block) return std::nullopt;
  WarpgroupTiling t = tiling_of(*block, schedule, is_copied);
  t.splits = product_parts(product_tiles(contraction, t.tile()), *block, machine.processors);
  return t;
}

Status verify(const WarpgroupTiling& t, const Contraction& contraction) {
  auto wrong = [&](std::string_view what) { return wrong_tiling(t, what); };
  if (!has_half_operands(contraction)) return wrong("operands are not of one half type");
  const int64_t pixels = t.patches > 0 ? patch_pixels(contraction, t.rows) : 0;
  LFARM_RETURN_IF_ERROR(verify_blocks(t, pixels * t.patches * kRowBytes));
  if (t.is_copied) {
    const bool has_boxes = has_maps(contraction);
    if (!has_boxes && !has_window_maps(contraction)) return wrong("the copy engine cannot read");
    if (t.is_beside && !has_boxes) return wrong("blocks beside each other copy boxes");
  } else if (t.cluster != 1 || t.resident != 1 || t.rows == 192) {
    return wrong("threads copy no such blocks");
  }
  if (t.patches > 0) {
    auto maps = window_maps(contraction, t.rows, t.columns, kWarpgroupDepth, t.cluster);
    const bool has_patches = t.is_copied && !t.is_beside && pixels > 0 && maps &&
                             t.patches <= kPatchesMax &&
                             maps->steps() / maps->channel_steps() % t.stages == 0;
    if (!has_patches) return wrong("blocks keep no such patches");
  }
  const bool may_share = contraction.group() == nullptr || t.splits.is_constant(1);
  if (!may_share || !is_splits(t.splits, contraction.body()))
    return wrong("splits are out of range");
  return {};
}

Status verify(const WarpgroupTiling& t, const PairedProducts& pair) {
  auto wrong = [&](std::string_view what) { return wrong_tiling(t, what); };
  if (!t.is_copied || t.patches != 0 || !t.splits.is_constant(1)) {
    return wrong("blocks of paired products are not like this");
  }
  const Contraction first(pair.body, pair.first), second(pair.body, pair.second);
  for (const Contraction* each : {&first, &second}) {
    const bool has_boxes = has_maps(*each);
    if (!has_boxes && (t.is_beside || !has_window_maps(*each))) {
      return wrong("the copy engine cannot read");
    }
  }
  // The first product's sums, rounded, with rows that are filled up.
  constexpr int64_t kPad = 8, kSumBytes = 2;
  return verify_blocks(t, t.rows * (t.columns + kPad) * kSumBytes);
}

}  // namespace common
