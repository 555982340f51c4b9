// A contraction with few rows (or columns), as in decoding: a matrix that is read once, as fast as
// memory gives it.
#pragma once

#include "common/base/result.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "common/schedule/products/skinny_tiling.h"

namespace worker {

// Where one side is_few().
common::Result<common::GpuFunction> emit_cuda_tile_skinny(const common::Contraction& contraction,
                                                          const common::SkinnyTiling& tiling);

}  // namespace worker
