// Runs a plan and the reference interpreter on the same random inputs.
#pragma once

#include <string>

#include "clients/runtime/farm/pulled_plan.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/runtime/device/device.h"

namespace clients {

// What was found, for people: "4 inputs, error 1.2e-07, a plain lowering's 1.1e-07". kVerification
// when the plan computes something else than the graph, by the same measure that workers judge
// candidates with; kInvalidInput when it is for another device. Weights are random too.
common::Result<std::string> try_plan(const PulledPlan& plan, const common::Graph& graph,
                                     common::Device& device);

}  // namespace clients
