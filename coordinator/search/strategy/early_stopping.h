// Early stopping: estimates from recent improvements whether the next 100 candidates are worth
// measuring.
#pragma once

#include <cstdint>
#include <deque>

namespace coordinator {

// Not thread-safe.
class EarlyStopping {
 public:
  // A result came; `now_ns` is the estimated time of the whole plan after it, 0 while unknown.
  void record(double now_ns);
  // Whether another 100 candidates are expected, with 95 % confidence, to improve the time by less
  // than `share` of it.
  bool expects_less_than(double share) const;
  int64_t results_since_improvement() const { return since_improvement_; }

 private:
  double reached_ns_ = 0;  // the best estimate so far, ignoring steps below kImprovementMin
  int64_t since_improvement_ = 0;
  std::deque<double> improvements_;  // the last ones, as shares of the time before
};

}  // namespace coordinator
