// Blocks of a product of halves on tensor cores, by instructions of single warps (mma.sync).
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/tiling.h"
#include "common/schedule/products/product_tiles.h"
#include "common/schedule/tile_blocks.h"

namespace common {

struct MmaTiling {
  static constexpr std::string_view kForm = "mma_tile";
  int64_t rows = 64, columns = 64, depth = 64;  // of a block; depth in a step
  int64_t tall = 32, wide = 32;                 // of a warp's tile
  int64_t stages = 4;                           // blocks of operands in shared memory
  Expr splits = 1;                              // blocks that share a k
  int64_t stores = 4;                           // results that a thread stores together

  TileBlocks blocks() const { return {rows, columns, depth, tall, wide, stages}; }

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("columns", t.columns);
    visit("depth", t.depth);
    visit("tall", t.tall);
    visit("wide", t.wide);
    visit("stages", t.stages);
    visit("splits", t.splits);
    visit("stores", t.stores);
  }
};

// Of a contraction whose operands are of one half type.
MmaTiling choose_mma_tiling(const Contraction& contraction, const TileWish& wish,
                            const ProductMachine& machine);
// kInvalidInput where these are no blocks that tile_blocks() knows, or too many share a k.
Status verify(const MmaTiling& tiling, const Contraction& contraction);

}  // namespace common
