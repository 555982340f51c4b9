// The walk of a kernel's body as the loops that a generator makes of it: what is computed in which
// loop, and how often.
#pragma once

#include <cstdint>
#include <vector>

#include "common/cost/kernels/kernel_profile.h"

namespace common {

// Of the layouts that a generator tries, the cheapest; else of the loops as they come. symbols[k]
// is the value of the body's s<k>. Notes bytes, loops and the operations that stand in loops.
KernelProfile walk_body(const Graph& body, const std::vector<int64_t>& symbols, bool tries_layouts);

}  // namespace common
