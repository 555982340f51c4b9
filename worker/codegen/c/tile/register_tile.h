// The register tile of the kTile template: rows [i, i + mr) times columns [j, j + nr), summed over
// the steps of one block.
#pragma once

#include "worker/codegen/c/tile/tile_layout.h"

namespace worker {

// Writes the multiplication. Sums of earlier blocks are in `sums`; those after the last step go to
// `tile`, row-major.
void emit_register_tile(const TileCode& code);

}  // namespace worker
