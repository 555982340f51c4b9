// Attention of few rows on a GPU, as in decoding: keys and values are read once, many at a time.
#pragma once

#include "common/base/result.h"
#include "common/ir/hlir/attention_form.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/attention/skinny_attention.h"

namespace worker {

// kInvalidInput for a tiling that does not fit.
common::Result<common::GpuFunction> emit_cuda_attention_skinny(
    const common::Graph& body, common::AttentionForm form,
    const common::SkinnyAttentionTiling& tiling);

}  // namespace worker
