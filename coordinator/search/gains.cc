#include "coordinator/search/gains.h"

#include <cstddef>

namespace coordinator {
namespace {

// What counts as a gain, how many of the last ones say what the next would be worth, and before how
// many results in vain nothing is concluded.
constexpr double kGainMin = 0.001;
constexpr size_t kGainsKept = 8;
constexpr double kGainAtFirst = 0.05;
constexpr int64_t kVainMin = 48;

}  // namespace

void Gains::note(double now_ns) {
  if (now_ns <= 0) return;
  ++in_vain_;
  if (reached_ns_ > 0 && now_ns > reached_ns_ * (1 - kGainMin)) return;
  if (reached_ns_ > 0) gains_.push_back(1 - now_ns / reached_ns_);
  if (gains_.size() > kGainsKept) gains_.pop_front();
  reached_ns_ = now_ns;
  in_vain_ = 0;
}

// The rule of three: after n candidates in vain, the next one gains with a probability of at most
// 3 / n, at 95 % confidence. What it would gain is judged by the last gains there were.
bool Gains::promise_less_than(double share) const {
  if (in_vain_ < kVainMin) return false;
  double gain = gains_.empty() ? kGainAtFirst : 0;
  for (double g : gains_) gain += g / static_cast<double>(gains_.size());
  return 100 * gain * 3 / static_cast<double>(in_vain_) < share;
}

}  // namespace coordinator
