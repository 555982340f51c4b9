// Candidates for a whole graph: the sizes that they are judged at, and what is said when none was
// right.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/search/job_search.h"

namespace coordinator {

// Values of the symbols; the first are also measured.
std::vector<std::vector<int64_t>> verified_sizes(const std::vector<common::SymbolRange>& symbols);

// Why there is no plan, by the last candidate's result; null when none was tried.
common::Error nothing_worked(const CandidateResult* last);

}  // namespace coordinator
