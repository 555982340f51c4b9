#include "coordinator/search/kernel_times.h"

#include <algorithm>
#include <cmath>

#include "coordinator/search/cost_model.h"

namespace coordinator {

std::optional<double> KernelTimes::known(const common::Digest& fingerprint) {
  if (auto it = measured_.find(fingerprint); it != measured_.end()) return it->second;
  if (!earlier_ || unknown_.count(fingerprint) != 0) return std::nullopt;
  auto ns = earlier_->kernel_ns(fingerprint);
  if (!ns) {
    unknown_.insert(fingerprint);
    return std::nullopt;
  }
  ++reused_;
  return measured_.emplace(fingerprint, static_cast<double>(*ns)).first->second;
}

void KernelTimes::record(const common::Kernel& kernel, const common::Call& call, int64_t ns) {
  auto measured = static_cast<double>(std::max<int64_t>(ns, 1));
  if (!measured_.emplace(common::kernel_fingerprint(kernel), measured).second) return;
  double predicted = predict_ns(kernel, call_symbols(call, sizes_));
  log_ratio_sum_ += std::log(measured / predicted);
  ++ratios_;
}

KernelTimes::Estimate KernelTimes::estimate(const common::Program& program) {
  double scale = ratios_ == 0 ? 1 : std::exp(log_ratio_sum_ / static_cast<double>(ratios_));
  std::vector<std::optional<double>> times;
  for (const common::Kernel& kernel : program.kernels) {
    times.push_back(known(common::kernel_fingerprint(kernel)));
  }
  Estimate estimate;
  for (const common::Call& call : program.calls) {
    auto& time = times[static_cast<size_t>(call.kernel)];
    if (!time) {
      estimate.measured = false;
      time = scale * predict_ns(program.kernels[static_cast<size_t>(call.kernel)],
                                call_symbols(call, sizes_));
    }
    estimate.ns += *time;
  }
  return estimate;
}

}  // namespace coordinator
