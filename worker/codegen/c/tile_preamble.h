// C helpers that register tiles call.
#pragma once

#include <string_view>

namespace worker {

// Vectors, and squares that are transposed in them.
std::string_view tile_preamble();
// Pairs of bfloat16, for units that multiply such.
std::string_view pairs_preamble();
// Registers that hold tiles of those, for units that multiply such.
std::string_view matrix_preamble();

}  // namespace worker
