// What a compiler is told for a CPU target.
#pragma once

#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/schedule/kernels/vector_unit.h"

namespace worker {

// The machine options of GCC and Clang for a CPU target; empty for an unknown name.
std::vector<std::string> machine_options(const common::Target& target);
// Its SIMD registers, and what it does with them.
common::VectorUnit unit_of(const common::Target& target);

}  // namespace worker
