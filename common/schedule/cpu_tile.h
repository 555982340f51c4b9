// The blocks of a product that register tiles of a processor compute, where its schedule names
// none.
#pragma once

#include <cstdint>

namespace common {

// Rows and columns of a packed block. Where sizes are known a generator makes them smaller, so that
// blocks are equal, and wider where panels are read where they lie.
inline constexpr int64_t kTileBlockRows = 96, kTileBlockColumns = 256;

}  // namespace common
