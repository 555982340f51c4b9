// The kTile template on a GPU: a contraction in blocks that shared memory holds, with everything
// before it computed while blocks are loaded and everything after it while the product is stored.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/machine.h"

namespace worker {

// `body` holds exactly one kContract and otherwise primitives, and its outputs are elementwise
// functions of it, or permutations and reshapes of such. kUnsupported for other bodies.
//
// `tiling`: a WarpgroupTiling, where the machine's warpgroups multiply, SkinnyTiling, MmaTiling or
// ThreadTiling (common/schedule/products).
common::Result<common::GpuFunction> emit_cuda_tile(const common::Graph& body,
                                                   const common::Tiling& tiling,
                                                   const CudaMachine& machine);

}  // namespace worker
