// The loops that a kernel gets on a CPU where nobody said otherwise.
#pragma once

#include "common/base/result.h"
#include "common/cost/vector_terms.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/loops/cpu_loops.h"

namespace common {

struct CpuNestOptions {
  LoopsContext context;
  int inner_axis = -1;  // the output axis whose loop goes inside of the others
};

// Tries transformations of one loop an axis, and keeps what is expected to take less by `terms`.
// `body` has no structured operations; of the schedule, kLoops' parameters count. kUnsupported when
// the code grows out of bounds.
Result<LoopNest> choose_cpu_nest(const Graph& body, const Schedule& schedule,
                                 const VectorTerms& terms, const CpuNestOptions& options = {});

}  // namespace common
