// From a region's HLIR to a saturated e-graph: all the equal ways of computing it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/ir/hlir/graph.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/runner.h"
#include "coordinator/rules/matching/heads.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {

struct Saturated {
  std::unique_ptr<HeadTable> heads;
  std::unique_ptr<LoadTimeAnalysis> load_time;
  std::unique_ptr<EGraph> graph;
  std::vector<ClassId> outputs;  // one per output of the region
  RunReport report;

  std::string dump() const;
};

// The region has no loops. The e-graph keeps explanations, for crediting rules (count_helped).
// Deterministic unless the time limit ends the run.
Saturated saturate(const common::Graph& region, const RunLimits& limits, const common::Clock& clock,
                   Numerics numerics = Numerics::kStrict);

}  // namespace coordinator
