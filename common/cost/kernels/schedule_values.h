// The schedule parameters that predictions look at.
#pragma once

#include <cstdint>

#include "common/schedule/product_blocks.h"
#include "common/schedule/tile_blocks.h"

namespace common {

// Of a tile on a processor: its registers, and what a unit computes.
struct CpuTileBlocks {
  int64_t mr = 0, nr = 0, mc = 0, nc = 0;
};
// Of attention on a processor: rows of a unit, and keys that it packs at once.
struct CpuAttentionBlocks {
  int64_t rows = 0, keys = 0;
};

// The schedule parameters that predictions look at; 0 is the generator's choice.
struct ScheduleValues {
  int64_t vector = 0, unroll = 1, stage = 1;
  CpuTileBlocks tile;
  CpuAttentionBlocks attention;
  // Of attention and tiles on GPUs: `online` 0 computes scores twice.
  int64_t block_keys = 0, block_rows = 0, block_columns = 0, splits = 0, online = 1;
  TileUnits units = TileUnits::kQuicker;
  ProductWish product;
  bool is_default = true;  // every parameter, those of no field here too
};

}  // namespace common
