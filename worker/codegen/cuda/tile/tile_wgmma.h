// A contraction's blocks by warpgroup products of compute capability 9.0a, for operands of one half
// type.
#pragma once

#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// Whether the schedule asks for it and the operands are such; the device must be able to.
bool cuda_tile_is_wgmma(const common::Contraction& contraction, const common::Schedule& schedule);

// Only for such. Of the schedule: warpgroups, stages, splits.
common::Result<common::GpuFunction> emit_cuda_tile_wgmma(const common::Graph& body,
                                                         const common::Contraction& contraction,
                                                         const common::Schedule& schedule,
                                                         const CudaMachine& machine);

}  // namespace worker
