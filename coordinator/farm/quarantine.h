// Remembers which candidates killed which workers, so that one bad kernel cannot take the farm
// down worker by worker.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "common/base/digest.h"
#include "coordinator/farm/types.h"

namespace coordinator::farm {

// O(killed_workers_max) per call. Not thread-safe.
class Quarantine {
 public:
  // A fingerprint is quarantined when it killed `killed_workers_max` distinct workers. At most
  // `suspects_max` fingerprints are remembered, the longest known are forgotten first.
  Quarantine(uint32_t killed_workers_max, uint32_t suspects_max)
      : killed_workers_max_(killed_workers_max), suspects_max_(suspects_max) {}

  // True when this very death quarantined the fingerprint. A zero fingerprint is never blamed.
  bool blame(const common::Digest& fingerprint, WorkerId worker);
  // True when it was not quarantined before.
  bool ban(const common::Digest& fingerprint);
  bool contains(const common::Digest& fingerprint) const;

 private:
  struct Suspect {
    std::vector<WorkerId> killed;
    bool quarantined = false;
  };
  Suspect& suspect(const common::Digest& fingerprint);

  uint32_t killed_workers_max_;
  uint32_t suspects_max_;
  std::unordered_map<common::Digest, Suspect> suspects_;
  std::deque<common::Digest> order_;  // of first blame
};

}  // namespace coordinator::farm
