// Attention on a GPU by plain multiply-adds, for operands of any type.
#pragma once

#include "common/base/result.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

common::Result<common::GpuFunction> emit_cuda_attention_simt(const common::Graph& body,
                                                             common::AttentionForm form,
                                                             const common::Schedule& schedule,
                                                             const CudaMachine& machine);

}  // namespace worker
