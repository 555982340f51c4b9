// Reductions whose steps every thread of a GPU may better take alone (see
// ReductionChoices::walked).
#pragma once

#include <set>

#include "common/ir/hlir/graph.h"

namespace common {

// Reductions of few steps each of which reduces, such as what the chosen experts of a token add up
// to: where threads shared those steps, each would reduce by itself.
std::set<NodeId> sums_of_reductions(const Graph& body);

// Reductions of few steps over windows: written out, the neighbours of each step are loaded at
// once.
std::set<NodeId> window_reductions(const Graph& body);

}  // namespace common
