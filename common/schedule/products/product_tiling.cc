#include "common/schedule/products/product_tiling.h"

#include <algorithm>

#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/grouped_form.h"
#include "common/lowering/body/half_operands.h"
#include "common/schedule/grouped_blocks.h"
#include "common/schedule/products/mma_tiling.h"
#include "common/schedule/products/skinny_tiling.h"
#include "common/schedule/products/thread_tiling.h"
#include "common/schedule/products/warpgroup_tiling.h"
#include "common/schedule/tile_shape.h"

namespace common {
namespace {

TileWish wish_of(const Schedule& schedule) {
  return {tile_parameter(schedule, "block_rows"), tile_parameter(schedule, "block_columns"),
          tile_parameter(schedule, "splits")};
}

// The blocks of rows with matrices of their own that suit the sizes.
GroupedBlocks quickest_blocks(const Contraction& contraction, const ProductMachine& machine,
                              bool may_group) {
  const TileProblem& p = contraction.problem();
  std::vector<WeightedGroups> shapes;
  for (const WeightedSizes& each : priced_sizes(contraction.body().symbols)) {
    auto value = [&](const Expr& e) { return std::max<int64_t>(1, e.evaluate(each.sizes)); };
    shapes.push_back(
        {{value(p.m_size), value(contraction.group()->groups), value(p.n_size), value(p.k_size)},
         each.weight});
  }
  return grouped_blocks(shapes, machine.processors, may_group);
}

// Whether operands lie in memory in chunks of 16 bytes.
bool are_copied(const Contraction& contraction) {
  constexpr int64_t kChunk = 8;
  const bool runs_along_k = contraction.runs_along_k(Side::kRight);
  return contraction.reads_chunks(Side::kLeft, true, kChunk) &&
         contraction.reads_chunks(Side::kRight, runs_along_k, kChunk);
}

std::optional<Tiling> grouped_tiling(const Graph& body, const Schedule& schedule,
                                     const ProductMachine& machine) {
  auto form = grouped_form(body, only_contraction(body));
  if (!form) return std::nullopt;
  const GroupProduct product = group_product(body, *form);
  Contraction contraction(product);
  if (!has_half_operands(contraction)) {
    return to_tiling(choose_thread_tiling(contraction, schedule, machine));
  }
  TileWish wish = wish_of(schedule);
  const int64_t asked = tile_parameter(schedule, "warpgroups");
  const TileUnits units = tile_units(asked, wish.rows, wish.columns);
  if (machine.warpgroups && units == TileUnits::kWarpgroups) {
    ProductWish sizes = product_wish(asked, 1, 1);
    // Threads have no equal shares of 192 rows.
    return to_tiling(
        plain_warpgroup_tiling(sizes.rows == 192 ? 128 : sizes.rows, sizes.columns, schedule));
  }
  // Elements that threads compute reach warpgroups' products late.
  const bool may_group =
      machine.warpgroups && units == TileUnits::kQuicker && are_copied(contraction);
  const GroupedBlocks blocks = quickest_blocks(contraction, machine, may_group);
  if (blocks.has_warpgroups) {
    return to_tiling(plain_warpgroup_tiling(blocks.rows, blocks.columns, schedule));
  }
  if (wish.rows == 0) wish.rows = blocks.rows;
  if (wish.columns == 0) wish.columns = blocks.columns;
  wish.splits = 1;
  return to_tiling(choose_mma_tiling(contraction, wish, machine));
}

}  // namespace

std::optional<Tiling> choose_product_tiling(const Graph& body, const Schedule& schedule,
                                            const ProductMachine& machine) {
  if (auto pair = paired_products(body)) {
    auto t = choose_warpgroup_tiling(*pair, schedule, machine);
    if (t) return to_tiling(*t);
  }
  NodeId id = only_contraction(body);
  if (id < 0) return std::nullopt;
  Graph narrow = with_half_operands(body, id);
  if (has_row_order(narrow)) return grouped_tiling(narrow, schedule, machine);
  Contraction contraction(narrow, only_contraction(narrow));
  if (is_few(contraction, Side::kLeft) || is_few(contraction, Side::kRight)) {
    return to_tiling(choose_skinny_tiling(contraction, schedule, machine));
  }
  if (auto t = choose_warpgroup_tiling(contraction, schedule, machine)) return to_tiling(*t);
  if (has_half_operands(contraction)) {
    return to_tiling(choose_mma_tiling(contraction, wish_of(schedule), machine));
  }
  return to_tiling(choose_thread_tiling(contraction, schedule, machine));
}

}  // namespace common
