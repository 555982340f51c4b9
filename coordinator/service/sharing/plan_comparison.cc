// PeerPlans' comparison of this store's plans with the engine's.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/plan/seal.h"
#include "coordinator/service/plans/owned_plan.h"
#include "coordinator/service/sharing/peer_plans.h"

namespace coordinator::service {

using common::cat;
using common::Code;
using common::Digest;
using common::Result;
using common::Status;

bool is_away(const Status& status) {
  return !status.ok() &&
         (status.error().code == Code::kUnavailable || status.error().code == Code::kTimedOut);
}

Status PeerPlans::compare(const PlanPlace& place) {
  (void)fetch(place);
  return offer(place);
}

// Empty where the plan went meanwhile, cannot be read, is not the last one of its search, or
// belongs to another shard.
Result<std::optional<PeerPlans::KeptPlace>> PeerPlans::place_of_kept(
    const cache::PlanListing& listing, const Shards& shards) {
  LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(listing.facts.key, cache::Lookup::kInspect));
  auto owned = stored ? decode_owned(stored->bytes) : Result<OwnedPlan>(common::corrupt("gone"));
  if (!owned.ok() || owned->plan.provenance.search.is_interim) return std::optional<KeptPlace>();
  PlanPlace place{owned->tenant, owned->plan.key.digest(), owned->plan.provenance.machine,
                  listing.facts.graph_hash};
  if (!shards[place.shard()]) return std::optional<KeptPlace>();
  return std::optional(
      KeptPlace{std::move(place), std::move(stored->bytes), std::move(owned->plan.objects)});
}

// Those of which the engine has another plan than this store, none, or not all objects.
Result<std::vector<PlanPlace>> PeerPlans::different(std::vector<KeptPlace> some) {
  std::map<uint32_t, std::vector<KeptPlace>> by_shard;
  for (KeptPlace& one : some) by_shard[one.place.shard()].push_back(std::move(one));
  std::vector<PlanPlace> different;
  std::vector<Digest> objects;
  std::vector<PlanPlace> alike;
  for (auto& [shard, kept] : by_shard) {
    std::vector<Digest> names;
    for (const KeptPlace& one : kept) names.push_back(one.place.digest());
    LFARM_ASSIGN_OR_RETURN(auto there, records_.get_all(shard, names));
    for (size_t k = 0; k < kept.size(); ++k) {
      bool is_alike = there[k] == kept[k].bytes;
      (is_alike ? alike : different).push_back(std::move(kept[k].place));
      if (is_alike) objects.insert(objects.end(), kept[k].needs.begin(), kept[k].needs.end());
    }
  }
  LFARM_ASSIGN_OR_RETURN(bool has_all, records_.has_objects(objects));
  if (!has_all) std::move(alike.begin(), alike.end(), std::back_inserter(different));
  return different;
}

Result<std::optional<Digest>> PeerPlans::compare_some(const Shards& shards,
                                                      const std::optional<Digest>& last) {
  LFARM_ASSIGN_OR_RETURN(auto listings, store_.plans_after(last, kPlansCompared));
  if (listings.empty()) return std::optional<Digest>();
  std::vector<KeptPlace> some;
  for (const cache::PlanListing& listing : listings) {
    auto kept = place_of_kept(listing, shards);
    if (!kept.ok()) {
      common::log_warning(cat("a plan is not compared: ", kept.error().message));
    } else if (*kept) {
      some.push_back(std::move(**kept));
    }
  }
  LFARM_ASSIGN_OR_RETURN(std::vector<PlanPlace> places, different(std::move(some)));
  for (const PlanPlace& place : places) {
    Status compared = compare(place);
    // A plan that cannot be shared at all, such as one that is too large, holds up no other.
    if (is_away(compared)) return compared.error();
  }
  return std::optional(listings.back().facts.key);
}

}  // namespace coordinator::service
