// A contraction's blocks by warpgroup products of compute capability 9.0a, by what brings operands
// of one half type into shared memory.
#pragma once

#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/products/warpgroup_tiling.h"
#include "common/schedule/template_fit.h"
#include "worker/codegen/cuda/tile/tile_block.h"

namespace worker {

inline CudaBlockSize block_size(const common::WarpgroupTiling& t) {
  return {
      t.rows,     t.columns, static_cast<int>(t.threads()), t.stores, static_cast<int>(t.cluster),
      t.is_beside};
}

// Threads copy or compute them.
common::Result<common::GpuFunction> emit_cuda_tile_wgmma(const common::Contraction& contraction,
                                                         const common::WarpgroupTiling& tiling);

// The copy engine brings both step by step; where tiling.is_copied.
common::Result<common::GpuFunction> emit_cuda_tile_tma(const common::Contraction& contraction,
                                                       const common::WarpgroupTiling& tiling);

// The same of two products that meet; of a tiling for these.
common::Result<common::GpuFunction> emit_cuda_tile_pair(const common::PairedProducts& pair,
                                                        const common::WarpgroupTiling& tiling);

// Likewise, but a convolution's pixels once for all taps; where tiling.patches is not 0.
common::Result<common::GpuFunction> emit_cuda_tile_patch(const common::Contraction& contraction,
                                                         const common::WarpgroupTiling& tiling);

}  // namespace worker
