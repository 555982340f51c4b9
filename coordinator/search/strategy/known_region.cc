#include "coordinator/search/strategy/known_region.h"

namespace coordinator {

KnownRegion::KnownRegion(TuningRecord known, std::unique_ptr<RegionSearch> further)
    : known_(std::move(known)), further_(std::move(further)) {
  if (further_) decisions_ = further_->fusion_decisions();
}

bool KnownRegion::leads() const {
  return !further_ || !further_->has_measurement() || known_.ns <= further_->best_ns();
}

std::optional<RegionCandidate> KnownRegion::propose() {
  return further_ ? further_->propose() : std::nullopt;
}

void KnownRegion::tell(const RegionCandidate& candidate, std::optional<double> ns) {
  LFARM_CHECK(further_ != nullptr, "a result for a region that is not searched");
  further_->tell(candidate, ns);
}

common::Program KnownRegion::ranked(size_t rank) const {
  if (!leads()) return further_->ranked(rank);
  if (rank == 0 || !further_) return known_.program;
  return further_->ranked(rank - 1);
}

double KnownRegion::best_ns() const { return leads() ? known_.ns : further_->best_ns(); }

}  // namespace coordinator
