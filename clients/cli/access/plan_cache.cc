#include "clients/cli/access/plan_cache.h"

#include "clients/runtime/farm/farm_access.h"
#include "clients/runtime/farm/revocations.h"
#include "common/base/cat.h"
#include "common/plan/seal.h"
#include "common/wire/ir_codec.h"
#include "common/wire/plan_names.h"

namespace clients {

using common::cat;
using common::Result;

namespace {

// More are nobody's one plan.
constexpr size_t kPlansFoundMax = 1'000;

common::SharedBytes share_text(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {common::as_bytes(*owner), owner};
}

bool starts_with(const common::Digest& digest, const std::string& digits) {
  return digest.hex().compare(0, digits.size(), digits) == 0;
}

}  // namespace

cache::StoreOptions writer_options() {
  cache::StoreOptions options;
  options.names_of = [](std::string_view bytes) { return common::plan_names(bytes); };
  return options;
}

Result<std::unique_ptr<PlanCache>> PlanCache::open(const StateDirectory& state) {
  cache::StoreOptions options;
  options.read_only = true;
  LFARM_ASSIGN_OR_RETURN(auto store, cache::Store::open(state.store(), options));
  return std::unique_ptr<PlanCache>(new PlanCache(state, std::move(store)));
}

Result<PlanTrust> PlanCache::trust() {
  if (trust_) return *trust_;
  PlanTrust trust;
  LFARM_ASSIGN_OR_RETURN(trust.signer, own_signing_key(state_));
  trust.tenant = common::kLocalTenant;
  LFARM_ASSIGN_OR_RETURN(trust.revoked, Revocations(state_.revocations()).known(trust.signer));
  trust_ = trust;
  return trust;
}

Result<std::optional<PulledPlan>> PlanCache::find(const common::PlanKey& key,
                                                  const std::string& machine) {
  common::Digest place = common::place_of(common::kLocalTenant, key.digest(), machine);
  LFARM_ASSIGN_OR_RETURN(auto bundle, store_->get_bundle(place));
  if (!bundle && !machine.empty()) {
    place = common::place_of(common::kLocalTenant, key.digest());
    LFARM_ASSIGN_OR_RETURN(bundle, store_->get_bundle(place));
  }
  if (!bundle) return std::optional<PulledPlan>();
  LFARM_ASSIGN_OR_RETURN(PlanTrust trusted, trust());
  PulledPlan out;
  LFARM_ASSIGN_OR_RETURN(out.plan,
                         open_signed_plan(common::as_bytes(bundle->plan.bytes), trusted, key));
  out.id = bundle->plan.facts.plan_id;
  out.signed_plan = share_text(std::move(bundle->plan.bytes));
  for (size_t i = 0; i < bundle->blobs.size(); ++i) {
    out.objects.emplace(bundle->plan.needs[i], share_text(std::move(bundle->blobs[i])));
  }
  out.facts = facts_of_hit(out.plan, out.id);
  return std::optional<PulledPlan>(std::move(out));
}

Result<std::vector<cache::PlanListing>> PlanCache::find_by_id(const std::string& digits) {
  LFARM_ASSIGN_OR_RETURN(std::vector<cache::PlanListing> all,
                         store_->plans_beginning(digits, kPlansFoundMax));
  std::vector<cache::PlanListing> found;
  for (const cache::PlanListing& plan : all) {
    if (starts_with(plan.facts.plan_id, digits) || starts_with(plan.facts.graph_hash, digits)) {
      found.push_back(plan);
    }
  }
  if (!found.empty()) return found;
  // Plan keys are known only to the plans themselves.
  auto signer = own_signing_key(state_);
  if (!signer.ok()) return found;
  for (const cache::PlanListing& listing : all) {
    auto key = key_of(listing, *signer);
    if (key.ok() && starts_with(*key, digits)) found.push_back(listing);
  }
  return found;
}

// Whoever's plan it is, and revoked or not.
Result<common::Digest> PlanCache::key_of(const cache::PlanListing& listing,
                                         const common::PublicKey& signer) {
  LFARM_ASSIGN_OR_RETURN(auto stored, store_->get_plan(listing.facts.key, cache::Lookup::kInspect));
  if (!stored) return common::corrupt("the plan is not complete any more");
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer,
                         common::decode_sealed(common::as_bytes(stored->bytes)));
  LFARM_RETURN_IF_ERROR(common::check_signature(outer, signer));
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(outer.bytes));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(grant.plan));
  return plan.key.digest();
}

Result<common::Plan> PlanCache::read(const cache::PlanListing& listing) {
  LFARM_ASSIGN_OR_RETURN(PlanTrust trusted, trust());
  LFARM_ASSIGN_OR_RETURN(auto stored, store_->get_plan(listing.facts.key, cache::Lookup::kInspect));
  if (!stored) {
    return common::invalid_input(
        cat("plan ", listing.facts.plan_id.short_hex(), " is not complete any more; submit again"));
  }
  return open_signed_plan(common::as_bytes(stored->bytes), trusted);
}

}  // namespace clients
