// Cutting a rolled graph into regions: loop-free pieces that are searched on their own, once each,
// however often they occur.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace coordinator {

// A loop-free graph. Its inputs and outputs are stored tensors; its symbols are the whole graph's.
// An input is a weight when the value depends on weights alone wherever the region is used.
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
  std::vector<Region> regions;  // distinct
  // How often a region runs in one run of the graph; 0 when it only makes what depends on weights
  // alone, once.
  std::vector<int64_t> executions;
};

// Nodes between loops form segments, those of values that depend on weights alone apart from
// others; a loop's body is cut once, whatever its trip count. Deterministic.
Cut cut_into_regions(const common::Graph& rolled);

}  // namespace coordinator
