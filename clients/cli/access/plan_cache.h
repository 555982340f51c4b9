// Plans of a state directory without a farm: straight from the store's files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/store/store.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "clients/runtime/farm/state_directory.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace clients {

// For commands that write to the store of a state directory whose farm is not running.
cache::StoreOptions writer_options();

// Read-only, beside a farm that may be writing. Not thread-safe.
class PlanCache {
 public:
  // kUnavailable when the state directory holds no store yet.
  static common::Result<std::unique_ptr<PlanCache>> open(const StateDirectory& state);

  // Empty when there is no plan under the key of the machine class, nor one of which the class is
  // not known. kVerification when it does not bear the signature of the state directory's own key.
  common::Result<std::optional<PulledPlan>> find(const common::PlanKey& key,
                                                 const std::string& machine);
  // Plans of all tenants whose plan id, plan key or graph hash begins with these hexadecimal
  // digits.
  common::Result<std::vector<cache::PlanListing>> find_by_id(const std::string& digits);
  // Its content, verified.
  common::Result<common::Plan> read(const cache::PlanListing& listing);
  // What the state directory's plans must be; read once.
  common::Result<PlanTrust> trust();
  cache::Store& store() { return *store_; }

 private:
  PlanCache(StateDirectory state, std::unique_ptr<cache::Store> store)
      : state_(std::move(state)), store_(std::move(store)) {}
  common::Result<common::Digest> key_of(const cache::PlanListing& listing,
                                        const common::PublicKey& signer);
  StateDirectory state_;
  std::unique_ptr<cache::Store> store_;
  std::optional<PlanTrust> trust_;
};

}  // namespace clients
