// The kAttention template on a GPU: a block of rows against the keys a block at a time, so that
// scores never leave a processor.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"

namespace worker {

// `body` is as it stands in the kernel, with its structure, and holds one attention (see
// attention_form.h). The forms of tilings are those of common/schedule/attention. kInvalidInput for
// other tilings, those that do not fit, and those of warpgroups where the target has none.
common::Result<common::GpuFunction> emit_cuda_attention(const common::Graph& body,
                                                        const common::Tiling& tiling,
                                                        bool has_warpgroups);

}  // namespace worker
