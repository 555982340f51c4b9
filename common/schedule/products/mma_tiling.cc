#include "common/schedule/products/mma_tiling.h"

#include "common/base/check.h"
#include "common/ir/llir/wrong_tiling.h"

namespace common {

MmaTiling choose_mma_tiling(const Contraction& contraction, const TileWish& wish,
                            const ProductMachine& machine) {
  auto blocks = tile_blocks(contraction, wish, machine.processors);
  LFARM_CHECK(blocks.has_value(), "operands are of one half type");
  MmaTiling t{
      blocks->rows, blocks->columns, blocks->depth, blocks->tall, blocks->wide, blocks->stages, 1};
  if (blocks->splits == 1) return t;
  // As many as fill the machine, at most those of the choice.
  Expr all = product_tiles(contraction, {t.rows, t.columns});
  Expr fill = floor_div(kTileBlocksSm * machine.processors, all);
  t.splits = max(1, min(blocks->splits, fill));
  return t;
}

Status verify(const MmaTiling& t, const Contraction& contraction) {
  if (!has_half_operands(contraction)) {
    return invalid_input("tensor cores multiply operands of one half type");
  }
  bool may_share = contraction.group() == nullptr || t.splits.is_constant(1);
  if (!is_tile_block(t.blocks()) || !may_share || !is_splits(t.splits, contraction.body())) {
    return wrong_tiling(t, "no blocks of warps are like this");
  }
  if (!are_stores(t.stores)) return wrong_tiling(t, kWrongStores);
  return {};
}

}  // namespace common
