// The loops that a kernel's tiling stands for, to be executed without a compiler.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/ir/tiled/looped_nodes.h"
#include "common/schedule/kernels/nest_machine.h"

namespace common {

// The kernel with its tiling's loops. kUnsupported where it has no tiling; kInvalidInput where the
// tiling's form or sizes are none that its template has loops for.
Result<LoopedNodes> looped_kernel(const Kernel& kernel, const NestMachine& machine);

}  // namespace common
