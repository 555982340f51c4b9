// Kernels that are launched as one: each part's blocks follow those of the parts before.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"

namespace worker {

// Only for horizontal kernels with their nests. kUnsupported where a part needs memory of its
// blocks' own.
common::Result<common::GpuFunction> emit_cuda_horizontal(const common::Kernel& kernel);

}  // namespace worker
