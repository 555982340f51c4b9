// The nests of a horizontal kernel's parts, which on a GPU share the size of the launch's blocks.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/cost/gpu_time.h"
#include "common/cost/vector_terms.h"
#include "common/ir/llir/llir.h"

namespace common {

struct TimedParts {
  std::vector<LoopNest> nests;        // one a part; empty for a scatter without loops
  std::vector<GpuKernelFacts> facts;  // of the launch, at each of the symbols' priced_sizes()
};

// Those that are predicted to take least together on such a machine: the launch's blocks are as
// large as the largest part's, so that parts of unlike sizes leave threads without work.
// kUnsupported when the code grows out of bounds.
Result<TimedParts> choose_part_nests(const Kernel& kernel, const GpuMachine& machine);

// Those that the parts would get as kernels by themselves on a processor. kUnsupported when a part
// is a scatter or the code grows out of bounds.
Result<std::vector<LoopNest>> choose_cpu_part_nests(const Kernel& kernel, const VectorTerms& terms);

}  // namespace common
