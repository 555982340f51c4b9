// A search whose device is the cost model: what it ends with is the plan that is predicted to take
// least among those it tried.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "coordinator/search/job_search.h"

namespace bench {

// Sees each candidate before it is given its predicted time; an error ends the search.
using CandidateObserver = std::function<common::Status(const coordinator::CandidateTask&)>;

// Searches of one graph with other seeds may end with other plans.
struct PredictedSearch {
  int64_t budget = 200;
  uint64_t seed = coordinator::SearchOptions{}.seed;
  std::string machine;  // whose prices count (common/runtime/machine_class.h); empty: typical ones
};

common::Result<common::Program> predicted_search(const common::Graph& graph,
                                                 const common::Target& target,
                                                 const PredictedSearch& wanted,
                                                 const CandidateObserver& observer = nullptr);

}  // namespace bench
