// Attention of few rows on a GPU, as in decoding: keys and values are read once, many at a time.
#pragma once

#include "common/base/result.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// Whether an attention in float32 has so few rows (a constant) for each of its keys and values, and
// these so few elements, that a group of threads can hold them all.
bool cuda_attention_is_skinny(const common::Graph& body, const common::AttentionForm& form);

// Only for such.
common::Result<common::GpuFunction> emit_cuda_attention_skinny(const common::Graph& body,
                                                               common::AttentionForm form,
                                                               const common::Schedule& schedule,
                                                               const CudaMachine& machine);

}  // namespace worker
