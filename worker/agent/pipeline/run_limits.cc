#include "worker/agent/pipeline/run_limits.h"

#include <algorithm>

namespace worker {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// Zeros, large and negative values and mixed magnitudes, beside the seeds.
constexpr size_t kAdversarialCases = 4;

}  // namespace

int compile_limit_ms(int64_t left_ms) {
  return static_cast<int>(std::min<int64_t>(kCompileMsMax, left_ms));
}

ProfileLimits run_limits(const common::TaskPayload& task, int64_t left_ms) {
  ProfileLimits limits;
  limits.total_ms = limits.candidate_ms = static_cast<int>(left_ms);
  if (task.kind != common::TaskKind::kCandidate) return limits;
  int64_t verify_ms = kVerifyMsMax;
  if (task.measure.give_up_ns != 0 && task.measure.give_up_ns < INT64_MAX / kNsPerMs) {
    auto cases = static_cast<int64_t>((task.verify.seeds.size() + kAdversarialCases) *
                                      task.verify.sizes.size());
    // At one size alone a run may take as long as the mean over all may be.
    double weight = 1;
    for (const common::WeightedSizes& each : task.measure.sizes) {
      weight = std::min(weight, each.weight);
    }
    double run_ns = static_cast<double>(task.measure.give_up_ns) / weight;
    int64_t run_ms = static_cast<int64_t>(run_ns / kNsPerMs) + 1;
    verify_ms = std::min(verify_ms, kVerifyMsMin + cases * kRunsPerCase * run_ms);
  }
  int64_t candidate_ms = verify_ms + kMeasureFactor * int64_t{task.measure.time_max_ms};
  limits.candidate_ms = static_cast<int>(std::min(candidate_ms, left_ms));
  return limits;
}

}  // namespace worker
