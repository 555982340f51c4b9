#include "coordinator/search/interim.h"

#include <algorithm>

namespace coordinator {
namespace {

constexpr double kGain = 0.9;
constexpr double kShare = 0.08;

}  // namespace

void InterimPlans::learned(Of what, const CandidateResult& result) {
  all_ms_ += result.busy_ms;
  if (what == Of::kRegion) return;
  // Kernels that a whole program is the first to need would be compiled for the regions' sake, too.
  double compiled_ms = std::max(0.0, result.busy_ms - result.report.compile_ms);
  last_whole_ms_ = compiled_ms;
  // The plain program is measured whatever else is.
  (what == Of::kPlain ? plain_ms_ : whole_ms_) += compiled_ms;
  if (what == Of::kWhole) last_measured_ns_ = static_cast<double>(result.report.total_ns);
}

bool InterimPlans::is_due(double plain_ns, double estimate_ns, int64_t candidates) const {
  // A program that took longer than was expected of it was not the one that its parts promise.
  double before_ns =
      last_estimate_ns_ > 0 ? std::max(last_estimate_ns_, last_measured_ns_) : plain_ns;
  return before_ns > 0 && estimate_ns > 0 && estimate_ns < kGain * before_ns &&
         candidates >= next_at_ && whole_ms_ + plain_ms_ <= kShare * all_ms_;
}

void InterimPlans::sent(double estimate_ns, int64_t candidates, int64_t pause) {
  last_estimate_ns_ = estimate_ns;
  last_measured_ns_ = 0;
  next_at_ = candidates + pause;
}

bool InterimPlans::is_better(const common::TaskReport& report) {
  auto ns = static_cast<double>(report.total_ns);
  double reach = static_cast<double>(report.spread_ns) / 2;
  if (best_ns_ > 0 && ns + reach >= best_ns_) return false;
  best_ns_ = ns - reach;
  return true;
}

}  // namespace coordinator
