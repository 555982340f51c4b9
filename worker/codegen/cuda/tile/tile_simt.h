// A contraction's blocks by plain multiply-adds: every thread a tile of the product in registers.
#pragma once

#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

common::Result<common::GpuFunction> emit_cuda_tile_simt(const common::Graph& body,
                                                        const common::Contraction& contraction,
                                                        const common::Schedule& schedule,
                                                        const CudaMachine& machine);

}  // namespace worker
