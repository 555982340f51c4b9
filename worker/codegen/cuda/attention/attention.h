// The kAttention template on a GPU: a block of rows against the keys a block at a time, so that
// scores never leave a processor.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// `body` is as it stands in the kernel, with its structure. kUnsupported unless it holds one
// attention (see attention_form.h) whose rows, keys and values fit into shared memory.
//
// Of the schedule: block_rows and block_keys, where they fit. `online` = 0 normalises probabilities
// before the product, as bodies that round them need where the values are float32: the scores are
// then computed twice, first for the rows' sums.
common::Result<common::GpuFunction> emit_cuda_attention(const common::Graph& body,
                                                        const common::Schedule& schedule,
                                                        const CudaMachine& machine);

}  // namespace worker
