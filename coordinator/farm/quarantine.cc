#include "coordinator/farm/quarantine.h"

#include <algorithm>

namespace coordinator::farm {

Quarantine::Suspect& Quarantine::suspect(const common::Digest& fingerprint) {
  auto found = suspects_.find(fingerprint);
  if (found != suspects_.end()) return found->second;
  if (order_.size() >= suspects_max_ && !order_.empty()) {
    suspects_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(fingerprint);
  return suspects_[fingerprint];
}

bool Quarantine::blame(const common::Digest& fingerprint, WorkerId worker) {
  if (fingerprint.is_zero()) return false;
  Suspect& suspect = this->suspect(fingerprint);
  if (suspect.quarantined) return false;
  auto known = std::find(suspect.killed.begin(), suspect.killed.end(), worker);
  if (known != suspect.killed.end()) return false;
  suspect.killed.push_back(worker);
  suspect.quarantined = suspect.killed.size() >= killed_workers_max_;
  return suspect.quarantined;
}

bool Quarantine::ban(const common::Digest& fingerprint) {
  if (fingerprint.is_zero()) return false;
  Suspect& suspect = this->suspect(fingerprint);
  if (suspect.quarantined) return false;
  suspect.quarantined = true;
  return true;
}

bool Quarantine::contains(const common::Digest& fingerprint) const {
  auto found = suspects_.find(fingerprint);
  return found != suspects_.end() && found->second.quarantined;
}

}  // namespace coordinator::farm
