#include "worker/codegen/cuda/tile/wgmma_size.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/schedule/product_blocks.h"
#include "worker/codegen/cuda/text/text.h"
#include "worker/codegen/cuda/tile/operand_map.h"
#include "worker/codegen/cuda/tile/wgmma_products.h"

namespace worker {

using common::Contraction;
using common::DType;
using common::Schedule;
using common::Side;

namespace {

constexpr int64_t kStagesUsual = 4;
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

// As many stages as asked for, or as hide what memory takes, in what a block may have.
int64_t choose_stages(const Schedule& schedule, const WgmmaSize& size) {
  int64_t bytes = (size.rows + size.columns) * WgmmaProducts::kDepth * 2;
  int64_t wanted = given(schedule, "stages") != 0 ? given(schedule, "stages")
                   : size.is_copied               ? kStagesUsual
                                                  : kStagesUsual + 1;
  return std::clamp(std::min(wanted, (kHopperSharedBytesMax - kOtherBytes) / bytes),
                    WgmmaProducts::kStagesMin, WgmmaProducts::kStagesMax);
}

// What the schedule allows, in its order.
std::vector<WgmmaSize> sizes_of(const Schedule& schedule, bool is_copied) {
  const int64_t wanted = given(schedule, "warpgroups"), clusters = given(schedule, "clusters");
  std::vector<WgmmaSize> sizes;
  for (const common::ScheduleChoice& choice : schedule_parameters(common::Template::kTile)) {
    if (choice.name != "warpgroups") continue;
    for (int64_t block : choice.values) {
      // 0 and 1 are no sizes.
      if (block <= 1 || (wanted != 0 && block != wanted)) continue;
      for (int cluster : {1, 2}) {
        bool fits = is_copied ? clusters == 0 || clusters == cluster : cluster == 1;
        if (!fits) continue;
        sizes.push_back({block / 1000, block % 1000, 0, cluster, is_copied});
        sizes.back().stages = choose_stages(schedule, sizes.back());
      }
    }
  }
  return sizes;
}

}  // namespace

std::optional<WgmmaSize> given_wgmma_size(const Schedule& schedule) {
  std::vector<WgmmaSize> sizes = sizes_of(schedule, false);
  if (given(schedule, "warpgroups") <= 1 || sizes.empty()) return std::nullopt;
  return sizes.front();
}

std::optional<WgmmaSize> choose_wgmma_size(const Contraction& contraction, const Schedule& schedule,
                                           const CudaMachine& machine) {
  const common::TileUnits units =
      common::tile_units(given(schedule, "warpgroups"), given(schedule, "block_rows"),
                         given(schedule, "block_columns"));
  if (!machine.warpgroups || !is_of_halves(contraction) || units == common::TileUnits::kWarps) {
    return std::nullopt;
  }
  bool is_copied = has_maps(contraction);
  if (units == common::TileUnits::kQuicker && !is_copied) return std::nullopt;
  auto shapes = common::priced_tiles(contraction);
  if (!shapes) return std::nullopt;
  const common::GpuMachine rates = common::machine_of_blocks(machine.processors);
  std::optional<WgmmaSize> best;
  double least = std::numeric_limits<double>::infinity();
  if (units == common::TileUnits::kQuicker) {
    common::TileWish wish{0, 0, given(schedule, "splits")};
    least =
        common::tiles_ns(*shapes, common::tile_blocks(*shapes, wish, machine.processors), rates);
  }
  for (const WgmmaSize& size : sizes_of(schedule, is_copied)) {
    double ns = common::products_ns(*shapes, {size.rows, size.columns, size.cluster}, rates);
    if (ns >= least) continue;
    best = size;
    least = ns;
  }
  if (best && best->cluster == 1) {
    best->splits = cuda_tile_splits(contraction, best->block(), WgmmaProducts::kDepth, schedule,
                                    contraction.body().symbols, machine);
  }
  return best;
}

}  // namespace worker
