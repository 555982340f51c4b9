// Packing for the kTile template: the blocks of operands that a register tile does not read in
// place.
#pragma once

#include "worker/codegen/c/tile/tile_layout.h"

namespace worker {

// Writes the loops that copy steps [k0, k1) of the right operand's columns from `jb` on, as element
// [k - k0][n - jb] of their panel of packed_b, or of the left one's rows [ib, ie), as
// packed_a[m - ib][k - k0].
void pack_block(const TileCode& code, common::Side side);

}  // namespace worker
