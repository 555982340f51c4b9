// The graphs that searches are compared on, and the best program known for each on a simulated
// device.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/graph.h"
#include "tests/bench/simulated_device.h"

namespace bench {

struct SearchGraph {
  std::string name;
  common::Graph graph;
};

// The given files, or else the fixed set: the fixtures, and what there is of the shared models.
common::Result<std::vector<SearchGraph>> search_graphs(const std::vector<std::string>& files);

// The time of a program found by descent over single genes with true times, from several starts:
// what a search without noise and without a bound on candidates would find.
double descend(const common::Graph& graph, SimulatedDevice& device);

}  // namespace bench
