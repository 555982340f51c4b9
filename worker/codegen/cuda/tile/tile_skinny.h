// A contraction with few rows (or columns), as in decoding: a matrix that is read once, as fast as
// memory gives it.
#pragma once

#include "common/base/result.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// Where one side is_few(). Of the schedule: splits.
common::Result<common::GpuFunction> emit_cuda_tile_skinny(const common::Graph& body,
                                                          const common::Contraction& contraction,
                                                          const common::Schedule& schedule,
                                                          const CudaMachine& machine);

}  // namespace worker
