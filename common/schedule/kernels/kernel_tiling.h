// Gives kernels that a template computes the tilings that their code is printed from.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/schedule/kernels/nest_machine.h"

namespace common {

// What the schedule asks for and, where it asks for nothing, what is expected to take least on such
// a machine. Empty for kernels of loops and library calls, for templates that nothing is to be
// chosen for, and where the template cannot compute the body in the machine's memory.
// Deterministic.
std::optional<Tiling> kernel_tiling(const Kernel& kernel, const NestMachine& machine);

}  // namespace common
