// The borders of outputs whose other elements a tile stores.
#pragma once

#include "common/lowering/body/unit_loop.h"
#include "worker/codegen/c/tile/tile_layout.h"

namespace worker {

// In the loop over units: each fills its share of the borders of outputs that are views with a
// border (see bordered_view()).
void fill_borders(const TileCode& code, const common::UnitLoop& units);

}  // namespace worker
