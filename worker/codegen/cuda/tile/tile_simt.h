// A contraction's blocks by plain multiply-adds: every thread a tile of the product in registers.
#pragma once

#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/products/thread_tiling.h"

namespace worker {

common::Result<common::GpuFunction> emit_cuda_tile_simt(const common::Contraction& contraction,
                                                        const common::ThreadTiling& tiling);

}  // namespace worker
