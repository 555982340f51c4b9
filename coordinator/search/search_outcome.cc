#include "coordinator/search/search_outcome.h"

#include <cmath>

#include "common/cost/kernels/cost_model.h"
#include "common/ir/llir/load_time.h"

namespace coordinator {
namespace {

// Of one run: calls at load run once.
double predicted_run_ns(const common::Program& program, const std::vector<double>& predictions,
                        const common::Target& target) {
  double sum = overhead_ns(program, target);
  std::vector<char> at_load = common::load_time_calls(program);
  for (size_t c = 0; c < program.calls.size(); ++c) {
    if (!at_load[c]) sum += predictions[static_cast<size_t>(program.calls[c].kernel)];
  }
  return sum;
}

}  // namespace

double overhead_ns(const common::Program& program, const common::Target& target) {
  return program_overhead_ns(program, representative_sizes(program.symbols), device_terms(target));
}

SearchOutcome outcome_of(const Sent& sent, const SearchOptions& options,
                         const std::vector<double>& predictions) {
  const common::TaskReport& report = sent.result->report;
  const common::Program& program = sent.task.payload.program;
  SearchOutcome outcome{{}, sent.result->worker, sent.task.id, ""};
  common::Plan& plan = outcome.plan;
  plan.key = {{}, options.target, options.policy, std::string(common::kCompilerEpoch)};
  plan.symbols = program.symbols;
  plan.inputs = program.inputs;
  plan.outputs = program.outputs;
  plan.buffers = program.buffers;
  plan.calls = program.calls;
  plan.kernels = report.kernels;
  plan.objects = report.objects;
  common::Provenance& provenance = plan.provenance;
  if (!predictions.empty()) {
    provenance.prediction.ns = std::llround(predicted_run_ns(program, predictions, options.target));
  }
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    if (k < predictions.size()) plan.kernels[k].predicted_ns = std::llround(predictions[k]);
    if (k < report.kernel_ns.size()) {
      plan.kernels[k].measured_ns = static_cast<int64_t>(report.kernel_ns[k]);
    }
  }
  provenance.best_ns = static_cast<int64_t>(report.total_ns);
  provenance.search.seed = options.seed;
  provenance.search.budget_candidates = options.budget;
  provenance.search.budget_ms = options.time_ms;
  provenance.disturbed = report.disturbed;
  provenance.worker = sent.result->worker;
  provenance.toolchain = report.toolchain;
  return outcome;
}

}  // namespace coordinator
