// What a compiler is told for a CPU target.
#pragma once

#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace worker {

// The machine options of GCC and Clang for a CPU target; empty for an unknown name.
std::vector<std::string> machine_options(const common::Target& target);
// The width of its SIMD registers.
int vector_bytes(const common::Target& target);

}  // namespace worker
