// The plan of a whole program that a search sent.
#pragma once

#include <vector>

#include "coordinator/search/sent_candidates.h"

namespace coordinator {

// Of a program that ran and was right. `predictions`: ns of its kernels before they were measured;
// may be empty. Its key lacks the graph's hash; how the search went is not in its provenance.
SearchOutcome outcome_of(const Sent& sent, const SearchOptions& options,
                         const std::vector<double>& predictions);

// What a run of the program takes beside its kernels, as predicted.
double overhead_ns(const common::Program& program, const common::Target& target);

}  // namespace coordinator
