// Attention on a GPU by plain multiply-adds, for operands of any type.
#pragma once

#include "common/base/result.h"
#include "common/ir/hlir/attention_form.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/attention/threads_attention.h"

namespace worker {

// kInvalidInput for a tiling that does not fit.
common::Result<common::GpuFunction> emit_cuda_attention_simt(
    const common::Graph& body, common::AttentionForm form,
    const common::ThreadsAttentionTiling& tiling);

}  // namespace worker
