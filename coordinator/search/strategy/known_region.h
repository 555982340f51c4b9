// A region whose best program an earlier search found: nothing is left to search, or a search goes
// on beside what is known.
#pragma once

#include <memory>
#include <utility>

#include "coordinator/search/records/tuning_records.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {

class KnownRegion final : public RegionSearch {
 public:
  // `further` is null when nothing is left to search.
  KnownRegion(TuningRecord known, std::unique_ptr<RegionSearch> further);

  std::optional<RegionCandidate> propose() override;
  void tell(const RegionCandidate& candidate, std::optional<double> ns) override;
  common::Program ranked(size_t rank) const override;
  Genome best_genome() const override { return leads() ? Genome() : further_->best_genome(); }
  double best_ns() const override;
  bool has_measurement() const override { return true; }
  double expected_ns() override { return known_.ns; }
  double novelty(const Effort& effort) override { return further_ ? further_->novelty(effort) : 0; }
  int64_t duplicates() const override { return further_ ? further_->duplicates() : 0; }
  int64_t composed() const override { return further_ ? further_->composed() : 0; }

 private:
  bool leads() const;

  TuningRecord known_;
  std::unique_ptr<RegionSearch> further_;
};

}  // namespace coordinator
