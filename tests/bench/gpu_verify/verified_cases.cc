#include "tests/bench/gpu_verify/verified_cases.h"

#include <fnmatch.h>

#include <utility>

#include "common/base/cat.h"
#include "common/ir/hlir/sizes.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"

namespace bench {
namespace {

using common::cat;
using common::Graph;
using common::HostTensor;
using common::Result;
using common::Status;

bool is_given(const common::GraphInput& input, const GivenInputs& given) {
  return input.kind != common::InputKind::kWeight && common::is_integer(input.dtype) &&
         ::fnmatch(given.pattern.c_str(), input.name.c_str(), 0) == 0;
}

// Gives the inputs of one pattern the value of a case, in tensors of their own.
Status give(const Graph& graph, const std::vector<common::IntegerUse>& uses,
            const GivenInputs& given, size_t which, std::vector<HostTensor>& inputs) {
  const int64_t value = given.values[which];
  bool is_known = false;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const common::GraphInput& input = graph.inputs[k];
    if (!is_given(input, given)) continue;
    is_known = true;
    if (uses[k].constrained && (value < uses[k].least || value > uses[k].greatest)) {
      return common::invalid_input(
          cat(input.name, " may be ", uses[k].least, " to ", uses[k].greatest, ", not ", value));
    }
    LFARM_ASSIGN_OR_RETURN(inputs[k], inputs[k].clone());
    for (int64_t i = 0; i < inputs[k].elements(); ++i) inputs[k].set_int(i, value);
  }
  if (is_known) return {};
  std::string names;
  for (const common::GraphInput& input : graph.inputs) {
    if (is_given(input, {"*", {}})) names += cat(" ", input.name);
  }
  return common::invalid_input(
      cat("no input of integers is called ", given.pattern, "; there are:", names));
}

}  // namespace

Result<VerifiedCases> VerifiedCases::make(Graph graph, const CaseChoice& choice) {
  VerifiedCases made;
  made.graph_ = std::move(graph);
  made.choice_ = choice;
  std::vector<int64_t> sizes = common::representative_sizes(made.graph_.symbols);
  LFARM_ASSIGN_OR_RETURN(auto inputs, common::synthetic_inputs(made.graph_, sizes, choice.seed,
                                                               common::InputPattern::kNormal));
  const auto uses = common::integer_uses(made.graph_, sizes);
  const size_t cases = choice.given.empty() ? 1 : choice.given[0].values.size();
  for (size_t k = 0; k < cases; ++k) {
    for (const GivenInputs& given : choice.given) {
      LFARM_RETURN_IF_ERROR(give(made.graph_, uses, given, k, inputs));
    }
    LFARM_RETURN_IF_ERROR(made.add_case(inputs));
  }
  return made;
}

Status VerifiedCases::add_case(const std::vector<HostTensor>& inputs) {
  Case made;
  made.inputs = inputs;
  LFARM_ASSIGN_OR_RETURN(made.reference, common::reference_outputs(graph_, inputs));
  cases_.push_back(std::move(made));
  return {};
}

std::string VerifiedCases::name_of(size_t which) const {
  std::string name;
  for (const GivenInputs& given : choice_.given) {
    name += cat(name.empty() ? "" : " ", given.pattern, "=", given.values[which]);
  }
  return name;
}

Result<common::OutputError> VerifiedCases::judge(common::Executor& executor, size_t which) {
  Case& one = cases_[which];
  LFARM_ASSIGN_OR_RETURN(auto user, common::bind_inputs(executor, one.inputs, which != 0));
  LFARM_ASSIGN_OR_RETURN(auto run, executor.run(user));
  LFARM_RETURN_IF_ERROR(executor.check_guards());
  LFARM_ASSIGN_OR_RETURN(auto outputs, common::outputs_in_order(executor, run));
  return common::judge_outputs(graph_, one.inputs, outputs, true, one.reference);
}

}  // namespace bench
