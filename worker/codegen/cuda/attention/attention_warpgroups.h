// Attention of many rows by warpgroup products, for compute capability 9.0a: the copy engine brings
// keys and values.
#pragma once

#include "common/base/result.h"
#include "common/lowering/attention/half_attention.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/attention/flash_attention.h"

namespace worker {

// After FlashAttention-3 (Shah et al., arXiv:2407.08608): one thread of a warp of its own asks for
// boxes of keys and of values, two steps ahead, and warpgroups of 64 rows each multiply them.
// Probabilities are the register operand of the second product. A warpgroup begins the scores of a
// step before the second product of the former one, so that tensor cores multiply while it computes
// exponentials; two warpgroups begin their products in turn.
//
// Rows are normalised after the product. `attention` is as tiled_attention() gives it.
// kInvalidInput for a tiling that does not fit.
common::Result<common::GpuFunction> emit_cuda_attention_warpgroups(
    const common::HalfAttention& attention, const common::WarpgroupAttentionTiling& tiling);

}  // namespace worker
