// Cutting a rolled graph into regions: loop-free pieces that are searched on their own, once each,
// however often they occur.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "common/ir/graph.h"

namespace coordinator {

// A loop-free graph. Its inputs and outputs are stored tensors; its symbols are the whole graph's.
struct Region {
  common::Graph graph;
};

// The graph's nodes name values; what a step reads and writes are such names.
struct SegmentStep {
  int region = 0;                       // into Cut::regions
  std::vector<common::NodeId> inputs;   // one per region input
  std::vector<common::NodeId> outputs;  // one per region output
};
struct CutGraph;
struct LoopStep {
  common::NodeId loop = 0;
  std::shared_ptr<const CutGraph> body;
};
// Steps in an order in which every value is written before it is read.
struct CutGraph {
  common::Graph graph;
  std::vector<std::variant<SegmentStep, LoopStep>> steps;
};

struct Cut {
  CutGraph whole;
  std::vector<Region> regions;      // distinct
  std::vector<int64_t> executions;  // how often a region runs in one run of the graph
};

// Nodes between loops form segments; a loop's body is cut once, whatever its trip count.
// Deterministic.
Cut cut_into_regions(const common::Graph& rolled);

}  // namespace coordinator
