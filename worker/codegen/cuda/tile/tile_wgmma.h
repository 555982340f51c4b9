// A contraction's blocks by warpgroup products of compute capability 9.0a, for operands of one half
// type of which some are computed: threads bring them into shared memory.
#pragma once

#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"
#include "worker/codegen/cuda/tile/wgmma_size.h"

namespace worker {

// Of the schedule: splits.
common::Result<common::GpuFunction> emit_cuda_tile_wgmma(const common::Graph& body,
                                                         const common::Contraction& contraction,
                                                         const common::Schedule& schedule,
                                                         const WgmmaSize& size,
                                                         const CudaMachine& machine);

}  // namespace worker
