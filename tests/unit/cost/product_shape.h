// Products as tests of their blocks state them, for a GPU with 132 multiprocessors.
#pragma once

#include "common/schedule/tile_shape.h"

namespace common {

inline constexpr int64_t kProcessors = 132;

inline TileShape product(int64_t rows, int64_t columns, int64_t steps) {
  TileShape shape;
  shape.rows = rows;
  shape.columns = columns;
  shape.steps = steps;
  return shape;
}

}  // namespace common
