// Kernels whose units are computed by one thread each, from text that walks a range of units.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/lowering/loops/gpu_function.h"

namespace worker {

// `function` is written for units [begin, end), without scratch memory. `block`: how the text
// spells the number of its block.
common::Result<common::GpuFunction> one_thread_a_unit(common::Result<common::FunctionBody> function,
                                                      std::string_view block = "blockIdx.x");

}  // namespace worker
