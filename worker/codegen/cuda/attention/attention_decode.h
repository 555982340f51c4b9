// Attention of few rows over long sequences in one pass at the memory's speed: bfloat16 operands go
// from device memory into the registers that tensor cores read them from.
#pragma once

#include "common/base/result.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// Whether one pass can compute it: up to eight rows, which may be normalised after the product, of
// half-precision queries and keys and bfloat16 values, in rows of whole 16 bytes.
bool cuda_attention_is_decode(const common::Graph& body, const common::AttentionForm& form,
                              const common::Schedule& schedule);

// `body` as half_attention() makes it.
common::Result<common::GpuFunction> emit_cuda_attention_decode(const common::Graph& body,
                                                               common::AttentionForm form,
                                                               const common::Schedule& schedule,
                                                               const CudaMachine& machine);

}  // namespace worker
