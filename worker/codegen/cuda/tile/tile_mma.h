// A contraction's blocks on tensor cores, for operands of one half type.
#pragma once

#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/products/mma_tiling.h"

namespace worker {

// Operands that are inputs in order are copied to shared memory several blocks ahead; others are
// computed by the threads, one block ahead.
common::Result<common::GpuFunction> emit_cuda_tile_mma(const common::Contraction& contraction,
                                                       const common::MmaTiling& tiling);

}  // namespace worker
