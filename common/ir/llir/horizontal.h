// Horizontal fusion: kernels that do not depend on one another, launched as one.
//
// A horizontal kernel's outputs are its parts. Each is computed as if it were a kernel by itself,
// by blocks of threads of its own that follow one another in the grid: what small kernels cost, a
// launch and the latency of memory, they pay together.
#pragma once

#include <cstddef>

#include "common/ir/llir/llir.h"

namespace common {

// More in one launch has more pointers than a kernel may take.
inline constexpr size_t kHorizontalPartsMax = 64;

// Whether a kernel may be a part: loops, or a scatter, with one output.
bool can_be_part(const Kernel& kernel);
// The kernel of output `part` alone: with all inputs and symbols, of which it may use few.
Kernel horizontal_part(const Kernel& kernel, size_t part);

// kInvalidInput unless a horizontal kernel has parts, and nests for all of them or none; others
// have no nests of parts.
Status verify_horizontal(const Kernel& kernel);

}  // namespace common
