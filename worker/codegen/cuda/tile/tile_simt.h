// A contraction's blocks by plain multiply-adds: every thread a tile of the product in registers.
#pragma once

#include "common/ir/llir/llir.h"
#include "worker/codegen/body/contraction.h"
#include "worker/codegen/cuda/text/function.h"

namespace worker {

common::Result<CudaFunction> emit_cuda_tile_simt(const common::Graph& body,
                                                 const Contraction& contraction,
                                                 const common::Schedule& schedule);

}  // namespace worker
