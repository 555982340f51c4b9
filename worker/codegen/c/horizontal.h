// Kernels that are launched as one on a processor: a table of parts for each function they call.
#pragma once

#include "common/base/result.h"
#include "worker/codegen/generator.h"

namespace worker {

// Only for horizontal kernels with their nests, whose parts are loops. Parts that compute the same
// over buffers of the same sizes share a function; parts' units follow one another.
common::Result<KernelSource> emit_c_horizontal(const common::Kernel& kernel);

}  // namespace worker
