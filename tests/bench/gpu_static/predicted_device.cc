#include "tests/bench/gpu_static/predicted_device.h"

#include <cmath>
#include <map>

#include "common/cost/kernels/cost_model.h"
#include "common/cost/kernels/gpu_nest_times.h"
#include "common/ir/llir/load_time.h"

namespace bench {
namespace {

class PredictedDevice {
 public:
  explicit PredictedDevice(const common::DeviceTerms& terms) : terms_(terms) {}

  coordinator::CandidateResult measure(const coordinator::CandidateTask& task) {
    const common::Program& program = task.payload.program;
    std::vector<common::WeightedSizes> sizes = task.payload.measure.sizes;
    if (sizes.empty()) sizes = {{task.payload.verify.sizes[0], 1}};
    coordinator::CandidateResult result;
    result.worker = "predicted";
    result.report.kernel_ns.assign(program.kernels.size(), 0);
    result.report.kernels.resize(program.kernels.size());
    result.report.runs = task.payload.measure.repetitions;
    std::vector<char> at_load = common::load_time_calls(program);
    double total = 0;
    for (size_t c = 0; c < program.calls.size(); ++c) {
      const common::Call& call = program.calls[c];
      auto k = static_cast<size_t>(call.kernel);
      const common::Kernel& kernel = program.kernels[k];
      common::Digest fingerprint = common::kernel_fingerprint(kernel);
      result.report.kernels[k].fingerprint = fingerprint;
      if (at_load[c] != 0) continue;
      auto [known, is_new] = known_.try_emplace(fingerprint, 0);
      if (is_new) known->second = predict(kernel, call, sizes);
      result.report.kernel_ns[k] = static_cast<uint64_t>(std::llround(known->second));
      total += known->second;
    }
    result.report.total_ns = static_cast<uint64_t>(std::llround(total));
    return result;
  }

 private:
  double predict(const common::Kernel& kernel, const common::Call& call,
                 const std::vector<common::WeightedSizes>& sizes) const {
    // Times of nests are over all sizes.
    if (common::has_nest_times(kernel)) {
      return common::predict_ns(kernel, common::call_symbols(call, sizes[0].sizes), terms_);
    }
    double ns = 0;
    for (const common::WeightedSizes& each : sizes) {
      std::vector<int64_t> symbols = common::call_symbols(call, each.sizes);
      ns += each.weight * common::predict_ns(kernel, symbols, terms_);
    }
    return ns;
  }

  const common::DeviceTerms& terms_;
  std::map<common::Digest, double> known_;
};

}  // namespace

common::Result<common::Program> predicted_search(const common::Graph& graph,
                                                 const common::Target& target,
                                                 const PredictedSearch& wanted,
                                                 const CandidateObserver& observer) {
  coordinator::SearchOptions options;
  options.budget = wanted.budget;
  options.seed = wanted.seed;
  options.target = target;
  options.machine = wanted.machine;
  LFARM_ASSIGN_OR_RETURN(auto search, coordinator::JobSearch::create(graph, options, nullptr));
  PredictedDevice device(common::device_terms(target, wanted.machine));
  while (!search->done()) {
    for (const coordinator::CandidateTask& task : search->propose(1)) {
      if (observer) LFARM_RETURN_IF_ERROR(observer(task));
      search->on_result(task.id, device.measure(task));
    }
  }
  return search->best_program();
}

}  // namespace bench
