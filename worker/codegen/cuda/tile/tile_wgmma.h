// A contraction's blocks by warpgroup products of compute capability 9.0a, by what brings operands
// of one half type into shared memory.
#pragma once

#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/template_fit.h"
#include "worker/codegen/cuda/tile/wgmma_size.h"

namespace worker {

// Threads copy or compute them.
common::Result<common::GpuFunction> emit_cuda_tile_wgmma(const common::Graph& body,
                                                         const common::Contraction& contraction,
                                                         const WgmmaSize& size);

// The copy engine brings both step by step; where size.is_copied.
common::Result<common::GpuFunction> emit_cuda_tile_tma(const common::Graph& body,
                                                       const common::Contraction& contraction,
                                                       const WgmmaSize& size);

// The same of two products that meet; of a size for these.
common::Result<common::GpuFunction> emit_cuda_tile_pair(const common::PairedProducts& pair,
                                                        const WgmmaSize& size);

// Likewise, but a convolution's pixels once for all taps; where size.patch is not 0.
common::Result<common::GpuFunction> emit_cuda_tile_patch(const common::Graph& body,
                                                         const common::Contraction& contraction,
                                                         const WgmmaSize& size);

}  // namespace worker
