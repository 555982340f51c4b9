// A contraction's blocks on tensor cores, for operands of one half type.
#pragma once

#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// Operands that are inputs in order are copied to shared memory several blocks ahead; others are
// computed by the threads, one block ahead.
common::Result<common::GpuFunction> emit_cuda_tile_mma(const common::Graph& body,
                                                       const common::Contraction& contraction,
                                                       const common::Schedule& schedule,
                                                       const CudaMachine& machine);

}  // namespace worker
