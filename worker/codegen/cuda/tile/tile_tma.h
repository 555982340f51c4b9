// A contraction's blocks by warpgroup products of compute capability 9.0a, whose operands the copy
// engine brings into shared memory.
#pragma once

#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/tile/wgmma_size.h"

namespace worker {

// Where size.is_copied.
common::Result<common::GpuFunction> emit_cuda_tile_tma(const common::Graph& body,
                                                       const common::Contraction& contraction,
                                                       const WgmmaSize& size);

}  // namespace worker
