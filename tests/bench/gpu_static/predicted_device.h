// A search whose device is the cost model: what it ends with is the plan that is predicted to take
// least among those it tried.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"

namespace bench {

common::Result<common::Program> predicted_search(const common::Graph& graph,
                                                 const common::Target& target, int64_t budget);

}  // namespace bench
