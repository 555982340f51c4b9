// Attention on tensor cores, for queries, keys and values in half precision.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// A body whose attention has half-precision operands, where they were cast before it.
struct HalfAttention {
  common::Graph body;
  common::AttentionForm form;
};
std::optional<HalfAttention> half_attention(const common::Graph& body,
                                            const common::AttentionForm& form);

// Probabilities that the body does not round are multiplied in two parts, the second with finite
// values alone: it may be 0, or of the other sign.
common::Result<common::GpuFunction> emit_cuda_attention_mma(const HalfAttention& attention,
                                                            const common::Schedule& schedule,
                                                            const CudaMachine& machine);

}  // namespace worker
