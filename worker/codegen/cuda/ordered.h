// Scans and sorts on a GPU, where the threads of a block work on one row.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/tiling.h"
#include "common/lowering/loops/gpu_function.h"

namespace worker {

// Each takes a body whose one output is the node that is named; everything below that node is
// computed in place. kUnsupported for another body, kInvalidInput for a tiling of another form or
// one that does not fit (see ordered_tiling.h).
//
// Rows along the last axis are scanned by a block each, an element a thread at a time; other axes
// by a thread for each line across, so that neighbouring threads read neighbours.
common::Result<common::GpuFunction> emit_cuda_scan(const common::Graph& body,
                                                   const common::Tiling& tiling);
// A bitonic sort of (key, position) pairs, by a block for each row; short rows stay in memory that
// the block shares.
common::Result<common::GpuFunction> emit_cuda_sort(const common::Graph& body,
                                                   const common::Tiling& tiling);

}  // namespace worker
