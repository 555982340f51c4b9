// What is known and guessed about kernels' running times within one search.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/ir/llir.h"
#include "coordinator/search/job_search.h"

namespace coordinator {

// A measurement always outranks a prediction; predictions are scaled by how far off the measured
// kernels' predictions were.
class KernelTimes {
 public:
  // `earlier` may be null.
  KernelTimes(const MeasurementSource* earlier, std::vector<int64_t> sizes)
      : earlier_(earlier), sizes_(std::move(sizes)) {}

  // A kernel of a candidate was measured alone. The first measurement stays.
  void record(const common::Kernel& kernel, const common::Call& call, int64_t ns);

  struct Estimate {
    double ns = 0;         // of one run of the program
    bool measured = true;  // every kernel's time is known
  };
  Estimate estimate(const common::Program& program);
  // Kernels whose time came from earlier searches.
  int64_t reused() const { return reused_; }

 private:
  std::optional<double> known(const common::Digest& fingerprint);

  const MeasurementSource* earlier_;
  std::vector<int64_t> sizes_;
  std::map<common::Digest, double> measured_;
  // Asked for and not found: what others measure meanwhile must not change this search's course.
  std::set<common::Digest> unknown_;
  double log_ratio_sum_ = 0;  // of measured to predicted time
  int64_t ratios_ = 0;
  int64_t reused_ = 0;
};

}  // namespace coordinator
