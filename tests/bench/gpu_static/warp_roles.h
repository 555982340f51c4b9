// Parts the code of a kernel whose warps do different things: some multiply, and a warp of its own
// asks the copy engine for what they multiply. Neither executes what is only the other's, so that
// the time and the instructions of both must not be added up as those of one warp.
#pragma once

#include <optional>

#include "common/cuda/sass.h"

namespace bench {

// The kernel as each of them executes it: other instructions are not reached, and have no loops.
struct WarpRoles {
  common::SassKernel multiplies, copies;
};

// By the branches that lead to products and to boxes, and on from them. Warps that wait for a
// barrier once more after it was not ready do nothing else meanwhile: these loops are in neither.
// None where one warp does both, or nothing is copied or multiplied so.
std::optional<WarpRoles> warp_roles(const common::SassKernel& kernel);

}  // namespace bench
