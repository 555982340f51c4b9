// Runs of a whole graph's plan on given values for every input, weights and states included: what
// judging a plan is made of.
#pragma once

#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/plan/plan.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/tensor/tensor.h"

namespace common {

// Binds weights and states; gives the user inputs. `inputs`: one for each of the plan's. What calls
// at load made of the weights is made again, unless they are `kept`: bound already.
Result<std::vector<HostTensor>> bind_inputs(Executor& executor, std::span<const HostTensor> inputs,
                                            bool kept = false);
// The run's outputs in the graph's order, new contents of states included.
Result<std::vector<HostTensor>> outputs_in_order(Executor& executor, RunOutputs& run);
// What a plain lowering gives for inputs perturbed in their last place (see verify_again). Half
// types stay: their last place is far more than the rounding inside.
Result<std::vector<HostTensor>> outputs_for_perturbed(const Graph& graph,
                                                      std::span<const HostTensor> inputs);
// kInvalidInput unless the plan takes the graph's inputs and gives its outputs.
Status plan_fits(const Plan& plan, const Graph& graph);

}  // namespace common
