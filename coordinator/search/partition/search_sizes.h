// The sizes at which a search measures, predicts and verifies programs whose sizes are symbolic.
#pragma once

#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/ir/hlir/sizes.h"
#include "common/plan/plan.h"
#include "common/wire/task.h"

namespace coordinator {

// Over which times are measured and predicted: priced_sizes() of the symbols, whose large ones are
// halved until the graph is small enough for the target to run dozens of times.
std::vector<common::WeightedSizes> search_sizes(const common::Graph& graph,
                                                const common::Target& target);

// At which a program for the graph is verified: the representative sizes; for each symbol a large
// prime, which gives several blocks and a ragged end to every loop that is cut, and a smaller one;
// the least and odd ones. The first of them, with the large primes whose reference is computed in a
// second or two, are verified whatever the time (VerifyOptions::always).
common::VerifyOptions verified_sizes(const common::Graph& graph);

// Multiply-adds that computing the graph takes, an element of an operation counted as dozens.
double graph_work(const common::Graph& graph, const std::vector<int64_t>& sizes);

}  // namespace coordinator
