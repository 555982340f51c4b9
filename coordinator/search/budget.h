// How a search's budget divides among regions, and what it shrinks to where earlier searches have
// been.
#pragma once

#include <vector>

#include "coordinator/search/job_search.h"
#include "coordinator/search/records/tuning_records.h"

namespace coordinator {

// A search spends on each region in proportion to its time.
std::vector<Effort> expected_efforts(const SearchOptions& options,
                                     const std::vector<double>& region_ns);

// The candidates left of a budget when of `all_ns` that the regions take only `fresh_ns` lie in
// what no earlier search has looked at; `is_known`: nothing is left to search.
int64_t budget_for(int64_t budget, double all_ns, double fresh_ns, bool is_known);

}  // namespace coordinator
