#include "coordinator/search/strategy/early_stopping.h"

#include <cstddef>

namespace coordinator {
namespace {

constexpr double kImprovementMin = 0.001;
constexpr size_t kImprovementsKept = 8;
constexpr double kFirstImprovement = 0.05;  // assumed before there was one
constexpr int64_t kResultsMin = 48;         // fewer results prove nothing

}  // namespace

void EarlyStopping::record(double now_ns) {
  if (now_ns <= 0) return;
  ++since_improvement_;
  if (reached_ns_ > 0 && now_ns > reached_ns_ * (1 - kImprovementMin)) return;
  if (reached_ns_ > 0) improvements_.push_back(1 - now_ns / reached_ns_);
  if (improvements_.size() > kImprovementsKept) improvements_.pop_front();
  reached_ns_ = now_ns;
  since_improvement_ = 0;
}

// Rule of three: after n results without an improvement, the next one improves with a probability
// of at most 3 / n at 95 % confidence. The size of that improvement is the mean of the last ones.
bool EarlyStopping::expects_less_than(double share) const {
  if (since_improvement_ < kResultsMin) return false;
  double mean = improvements_.empty() ? kFirstImprovement : 0;
  for (double each : improvements_) mean += each / static_cast<double>(improvements_.size());
  return 100 * mean * 3 / static_cast<double>(since_improvement_) < share;
}

}  // namespace coordinator
