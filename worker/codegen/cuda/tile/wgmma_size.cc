#include "worker/codegen/cuda/tile/wgmma_size.h"

#include <algorithm>

#include "worker/codegen/cuda/text/text.h"
#include "worker/codegen/cuda/tile/operand_map.h"
#include "worker/codegen/cuda/tile/wgmma_products.h"
#include "worker/codegen/cuda/tile/window_map.h"

namespace worker {

using common::Contraction;
using common::DType;
using common::Schedule;
using common::Side;

namespace {

constexpr int64_t kStagesUsual = 5;
// Beside the stages: barriers, and what functions keep for themselves.
constexpr int64_t kOtherBytes = 2048;

int64_t given(const Schedule& schedule, std::string_view name) {
  return schedule_value(schedule, common::Template::kTile, name);
}

bool is_of_halves(const Contraction& contraction) {
  DType left = contraction.operand_dtype(Side::kLeft);
  return common::is_half(left) && left == contraction.operand_dtype(Side::kRight);
}

bool has_maps(const Contraction& contraction) {
  constexpr int64_t kBox = WgmmaProducts::kDepth;  // any does
  return operand_map(contraction, Side::kLeft, kBox, kBox).has_value() &&
         operand_map(contraction, Side::kRight, kBox, kBox).has_value();
}

// Of convolutions.
bool has_window_maps(const Contraction& contraction) {
  constexpr int64_t kBox = WgmmaProducts::kDepth;
  return window_maps(contraction, kBox, kBox, kBox).has_value();
}

// As many stages as asked for, else `usual`, in what a block may have.
int64_t choose_stages(const Schedule& schedule, const WgmmaSize& size, int64_t usual) {
  constexpr int64_t kRowBytes = WgmmaProducts::kDepth * 2;
  int64_t bytes = ((size.patch > 0 ? 0 : size.rows) + size.columns) * kRowBytes;
  int64_t room = kHopperSharedBytesMax - kOtherBytes - size.patch * size.patches * kRowBytes;
  int64_t wanted = given(schedule, "stages") != 0 ? given(schedule, "stages") : usual;
  return std::clamp(std::min(wanted, room / bytes), size.is_copied ? 1 : WgmmaProducts::kStagesMin,
                    WgmmaProducts::kStagesMax);
}

// What the schedule asks for. Only the copy engine serves clusters and blocks of 192 rows, whose
// threads have no equal shares of what they would copy.
common::ProductWish wish_of(const Schedule& schedule, bool is_copied) {
  common::ProductWish wish =
      common::product_wish(given(schedule, "warpgroups"),
                           is_copied ? given(schedule, "clusters") : 1, given(schedule, "splits"));
  if (!is_copied && wish.rows == 192) wish.rows = 128;
  return wish;
}

WgmmaSize size_of(const common::ProductBlock& block, const Schedule& schedule, bool is_copied) {
  WgmmaSize size{block.rows, block.columns, 0, block.cluster, block.is_beside, is_copied};
  size.patch = block.patch;
  size.patches = block.patches;
  // Taps of patches are whole rounds of the stages.
  size.stages = size.patch > 0
                    ? block.stages
                    : choose_stages(schedule, size, is_copied ? block.stages : kStagesUsual);
  if (is_copied) size.resident = common::resident_products(block);
  return size;
}

}  // namespace

std::optional<WgmmaSize> choose_wgmma_size(const common::PairedProducts& pair,
                                           const Schedule& schedule, const CudaMachine& machine) {
  if (!machine.warpgroups) return std::nullopt;
  auto shapes = common::priced_tiles(pair);
  if (!shapes) return std::nullopt;
  const Contraction first(pair.body, pair.first), second(pair.body, pair.second);
  common::ProductWish wish = wish_of(schedule, true);
  wish.has_patches = false;
  wish.may_be_beside = has_maps(first) && has_maps(second);
  const common::ProductBlock block = common::product_block(*shapes, wish, machine.processors);
  WgmmaSize size{block.rows, block.columns, block.stages, block.cluster, block.is_beside, true};
  size.resident = common::resident_products(block);
  return size;
}

std::optional<WgmmaSize> given_wgmma_size(const Schedule& schedule) {
  if (given(schedule, "warpgroups") <= 1) return std::nullopt;
  const common::ProductWish wish = wish_of(schedule, false);
  return size_of({wish.rows, wish.columns, 1}, schedule, false);
}

std::optional<WgmmaSize> choose_wgmma_size(const Contraction& contraction, const Schedule& schedule,
                                           const CudaMachine& machine) {
  const common::TileUnits units =
      common::tile_units(given(schedule, "warpgroups"), given(schedule, "block_rows"),
                         given(schedule, "block_columns"));
  if (!machine.warpgroups || !is_of_halves(contraction) || units == common::TileUnits::kWarps) {
    return std::nullopt;
  }
  const bool has_boxes = has_maps(contraction);
  bool is_copied = has_boxes || has_window_maps(contraction);
  if (units == common::TileUnits::kQuicker && !is_copied) return std::nullopt;
  auto shapes = common::priced_tiles(contraction);
  if (!shapes) return std::nullopt;
  common::ProductWish wish = wish_of(schedule, is_copied);
  wish.has_patches = is_copied && has_window_maps(contraction);
  wish.may_be_beside = has_boxes;
  const std::optional<common::ProductBlock> block =
      units == common::TileUnits::kQuicker
          ? common::quicker_product_block(*shapes, wish, machine.processors)
          : common::product_block(*shapes, wish, machine.processors);
  if (!block) return std::nullopt;
  WgmmaSize size = size_of(*block, schedule, is_copied);
  size.splits =
      common::product_parts(cuda_tiles(contraction, size.block()), *block, machine.processors);
  return size;
}

}  // namespace worker
