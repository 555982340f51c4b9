#include "clients/cli/plans/plan_trial.h"

#include <algorithm>
#include <vector>

#include "common/base/cat.h"
#include "common/runtime/interpreter/interpreter.h"
#include "common/runtime/tensor/compare.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"
#include "common/text/units.h"

namespace clients {

using common::cat;
using common::HostTensor;
using common::Result;

namespace {

struct Trial {
  uint64_t seed;
  common::InputPattern pattern;
  const char* name;
};
// Sizes differ with the seed: near the middle, the least, and another.
constexpr Trial kTrials[] = {{0, common::InputPattern::kNormal, "ordinary values"},
                             {1, common::InputPattern::kNormal, "least sizes"},
                             {2, common::InputPattern::kMixed, "mixed magnitudes"},
                             {0, common::InputPattern::kZeros, "zeros"}};

Result<common::OutputError> run_trial(const Trial& trial, const common::Graph& graph,
                                      common::Executor& executor) {
  std::vector<int64_t> sizes = common::choose_sizes(graph, trial.seed);
  LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> inputs,
                         common::synthetic_inputs(graph, sizes, trial.seed, trial.pattern));
  LFARM_ASSIGN_OR_RETURN(auto reference, common::reference_outputs(graph, inputs));
  LFARM_ASSIGN_OR_RETURN(auto user, common::bind_inputs(executor, inputs));
  LFARM_ASSIGN_OR_RETURN(common::RunOutputs run, executor.run(user));
  LFARM_RETURN_IF_ERROR(executor.check_guards());
  LFARM_ASSIGN_OR_RETURN(auto outputs, common::outputs_in_order(executor, run));
  return common::judge_outputs(graph, inputs, outputs,
                               trial.pattern == common::InputPattern::kNormal, reference);
}

}  // namespace

Result<std::string> try_plan(const PulledPlan& plan, const common::Graph& graph,
                             common::Device& device) {
  LFARM_RETURN_IF_ERROR(common::plan_fits(plan.plan, graph));
  common::ExecutorOptions options;
  options.guard = true;
  LFARM_ASSIGN_OR_RETURN(auto executor,
                         common::Executor::load(plan.plan, plan.object_source(), device, options));
  common::OutputError worst;
  for (const Trial& trial : kTrials) {
    auto error = run_trial(trial, graph, *executor);
    if (!error.ok()) {
      return common::Error{error.error().code, cat(trial.name, ": ", error.error().message)};
    }
    worst.candidate = std::max(worst.candidate, error->candidate);
    worst.reference = std::max(worst.reference, error->reference);
  }
  return cat(std::size(kTrials), " kinds of inputs, error ", common::error_text(worst.candidate),
             ", a plain lowering's ", common::error_text(worst.reference));
}

}  // namespace clients
