// A contraction's blocks by warpgroup products of compute capability 9.0a, for operands of one half
// type of which some are computed: threads bring them into shared memory.
#pragma once

#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/tile/wgmma_size.h"

namespace worker {

common::Result<common::GpuFunction> emit_cuda_tile_wgmma(const common::Graph& body,
                                                         const common::Contraction& contraction,
                                                         const WgmmaSize& size);

}  // namespace worker
