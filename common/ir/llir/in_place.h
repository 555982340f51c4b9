// Which outputs of a kernel may share an input's memory.
#pragma once

#include <cstddef>
#include <vector>

#include "common/ir/llir/llir.h"

namespace common {

// By output: the input that is the base of a scatter and is read nowhere else, so that the kernel
// writes only what changes there; -1: none. Empty for kernels whose form never works in place.
std::vector<int> in_place_inputs(const Kernel& kernel);

// Whether loops over its updates compute a scatter that is the kernel's output, on machines whose
// kernels start from bases (EntryPoint::starts_from_bases): each update has a place of its own.
bool is_looped_scatter(const Kernel& kernel, size_t output);

}  // namespace common
