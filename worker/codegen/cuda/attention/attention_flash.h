// Attention of many rows on tensor cores: scores and probabilities stay in registers.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/attention/attention_half.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// After FlashAttention-2 (Dao, arXiv:2307.08691): a warp has the scores of 16 or 32 rows and a
// block of keys in the registers in which the product with the values wants the probabilities.
//
// Of the schedule: block_rows and block_keys, where they fit. `online` = 0 normalises probabilities
// before the product: scores are computed twice. Else probabilities that the body rounds are
// rounded first and normalised after the product. Those that it does not round are multiplied in
// two parts. kUnsupported where a row does not fit into registers and shared memory, or there are
// more than 2^30 keys or rows.
common::Result<common::GpuFunction> emit_cuda_attention_flash(const HalfAttention& attention,
                                                              const common::Schedule& schedule,
                                                              const CudaMachine& machine);

}  // namespace worker
