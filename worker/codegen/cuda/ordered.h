// Scans and sorts on a GPU, where the threads of a block work on one row.
#pragma once

#include "common/base/result.h"
#include "common/lowering/loops/gpu_function.h"

namespace worker {

// Each takes a body whose one output is the node that is named; everything below that node is
// computed in place. kUnsupported for another body.
//
// Rows along the last axis are scanned by a block each, 256 elements at a time; other axes by a
// thread for each line across, so that neighbouring threads read neighbours.
common::Result<common::GpuFunction> emit_cuda_scan(const common::Graph& body);
// A bitonic sort of (key, position) pairs, by a block for each row; short rows stay in memory that
// the block shares.
common::Result<common::GpuFunction> emit_cuda_sort(const common::Graph& body);

}  // namespace worker
