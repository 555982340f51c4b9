// Attention of many rows on tensor cores: scores and probabilities stay in registers.
#pragma once

#include "common/base/result.h"
#include "common/lowering/attention/half_attention.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/attention/flash_attention.h"

namespace worker {

// After FlashAttention-2 (Dao, arXiv:2307.08691): a warp has the scores of 16 or 32 rows and a
// block of keys in the registers in which the product with the values wants the probabilities.
//
// Probabilities that the body does not round are multiplied in two parts. `attention` is as
// tiled_attention() gives it. kInvalidInput for a tiling that does not fit.
common::Result<common::GpuFunction> emit_cuda_attention_flash(
    const common::HalfAttention& attention, const common::FlashAttentionTiling& tiling);

}  // namespace worker
