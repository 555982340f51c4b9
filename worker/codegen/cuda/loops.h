// The kLoops template on a GPU: units are the outputs' outer axes, the threads of a team share what
// is inside of them.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "worker/codegen/cuda/text/function.h"

namespace worker {

// `body` holds only primitives (see lowering.h).
common::Result<CudaFunction> emit_cuda_loops(const common::Graph& body,
                                             const common::Schedule& schedule);

}  // namespace worker
