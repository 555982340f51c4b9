// Runs of a whole graph's plan on given values for every input, weights and states included: what
// judging a plan is made of.
#pragma once

#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/plan/plan.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/executor/resident_weights.h"
#include "common/runtime/tensor/compare.h"
#include "common/runtime/tensor/tensor.h"

namespace common {

// Binds weights and states; gives the user inputs. `inputs`: one for each of the plan's. What calls
// at load made of the weights is made again, unless they are `kept`: bound already. Weights of
// `resident`, unless it is null, are used where they lie, and outlive the executor.
Result<std::vector<HostTensor>> bind_inputs(Executor& executor, std::span<const HostTensor> inputs,
                                            bool kept = false, ResidentWeights* resident = nullptr);
// The run's outputs in the graph's order, new contents of states included.
Result<std::vector<HostTensor>> outputs_in_order(Executor& executor, RunOutputs& run);
// What a plain lowering gives for inputs perturbed in their last place (see verify_again), and with
// other rounding (InterpretOptions::rounding), each `seed` in another way. Half types stay: their
// last place is far more than the rounding inside.
Result<std::vector<HostTensor>> outputs_for_perturbed(const Graph& graph,
                                                      std::span<const HostTensor> inputs,
                                                      uint64_t seed);

// What a graph gives for some inputs by the interpreter, to judge candidates by.
struct ReferenceOutputs {
  std::vector<HostTensor> oracle;              // in float64; of half types mostly in float32
  std::vector<HostTensor> plain;               // as a plain lowering gives it
  std::vector<ReferenceError> errors;          // of each of `plain`
  std::vector<std::vector<HostTensor>> draws;  // for perturbed inputs, made where they are needed
};
Result<ReferenceOutputs> reference_outputs(const Graph& graph, std::span<const HostTensor> inputs);
// By verify_outputs() and, where these are too far off, by verify_again() with up to three draws.
// kVerification says what is wrong with `outputs`; other errors are not theirs. `is_usual`: see
// verify_again.
Result<OutputError> judge_outputs(const Graph& graph, std::span<const HostTensor> inputs,
                                  std::span<const HostTensor> outputs, bool is_usual,
                                  ReferenceOutputs& reference);
// kInvalidInput unless the plan takes the graph's inputs and gives its outputs.
Status plan_fits(const Plan& plan, const Graph& graph);

}  // namespace common
