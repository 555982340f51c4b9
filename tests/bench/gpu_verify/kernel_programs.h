// The kernels of a program as programs of their own. What one row of a thousand contributes is lost
// in the rounding of a model's outputs; in its kernel's output it is an element.
#pragma once

#include <vector>

#include "common/ir/llir/llir.h"

namespace bench {

struct KernelProgram {
  common::Graph graph;  // the kernel's body; inputs that are weights where it is called say so
  common::Program program;
};

// One for each kernel, in their order.
std::vector<KernelProgram> kernel_programs(const common::Program& program);

}  // namespace bench
