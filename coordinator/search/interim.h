// When a search measures a whole program before its end, and which of these are handed out as
// plans.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "coordinator/search/job_search.h"

namespace coordinator {

// What proposals depend on is told in the order of proposals, so that a search is the same in
// whatever order results arrive; is_better() alone follows their arrival.
class InterimPlans {
 public:
  // A result was learned of: of the plain program, of another whole program, or of a region.
  enum class Of { kPlain, kWhole, kRegion };
  void learned(Of what, const CandidateResult& result);

  // Whether a whole program that should take `estimate_ns` is worth measuring after so many
  // candidates: it should be faster by a tenth than the last one was expected to be or took (the
  // first time, than the plain program), and whole programs take a small share of the workers'
  // time.
  bool is_due(double plain_ns, double estimate_ns, int64_t candidates) const;
  // It was sent. `pause`: candidates until the next one.
  void sent(double estimate_ns, int64_t candidates, int64_t pause);

  // Whether the program that was measured is faster than all before by more than both scatter.
  bool is_better(const common::TaskReport& report);
  // Plans to hand out, and those that were not taken yet.
  void add_plan(SearchOutcome plan) { plans_.push_back(std::move(plan)); }
  std::vector<SearchOutcome> take_plans() { return std::exchange(plans_, {}); }

  // What a whole program takes a worker whose kernels are compiled, as those of regions' programs
  // are, as far as that is known; 0: nothing is.
  double whole_ms() const { return last_whole_ms_; }

 private:
  double all_ms_ = 0, whole_ms_ = 0, plain_ms_ = 0, last_whole_ms_ = 0;
  double last_estimate_ns_ = 0;  // 0: none was sent
  double last_measured_ns_ = 0;  // 0: not yet
  int64_t next_at_ = 0;
  double best_ns_ = 0;  // less its scatter; 0: nothing was measured
  std::vector<SearchOutcome> plans_;
};

}  // namespace coordinator
