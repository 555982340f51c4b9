// Attention of few rows over long sequences in one pass at the memory's speed: bfloat16 operands go
// from device memory into the registers that tensor cores read them from.
#pragma once

#include "common/base/result.h"
#include "common/lowering/attention/half_attention.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/attention/decode_attention.h"

namespace worker {

// kInvalidInput for a tiling that does not fit.
common::Result<common::GpuFunction> emit_cuda_attention_decode(
    const common::HalfAttention& attention, const common::DecodeAttentionTiling& tiling);

}  // namespace worker
