// Horizontal fusion: kernels that do not depend on one another, launched as one.
//
// A horizontal kernel's outputs are its parts. Each is computed as if it were a kernel by itself,
// by units of its own that follow one another: on a GPU blocks of threads, on a processor shares of
// loops. What small kernels cost, a launch and the latency of memory, they pay together. Outputs of
// one shape that share computed values of that shape, such as an optimiser's of one parameter, are
// one part: loops that write all of them.
#pragma once

#include <cstddef>
#include <vector>

#include "common/ir/llir/llir.h"

namespace common {

// Outputs. More in one launch has more pointers than a kernel may take.
inline constexpr size_t kHorizontalPartsMax = 64;

// Whether a kernel may be a part: loops whose outputs are one part, or a scatter with one output.
bool can_be_part(const Kernel& kernel);
// The outputs of each part, ascending; parts in the order of their first outputs. A scatter is a
// part by itself.
std::vector<std::vector<size_t>> horizontal_parts(const Graph& body);
// The kernel of these outputs alone: with all inputs and symbols, of which it may use few. `part`
// is its place among the parts, which says which nest is its own.
Kernel horizontal_part(const Kernel& kernel, const std::vector<std::vector<size_t>>& parts,
                       size_t part);

// kInvalidInput unless a horizontal kernel has parts, and nests for all of them or none; others
// have no nests of parts.
Status verify_horizontal(const Kernel& kernel);

}  // namespace common
