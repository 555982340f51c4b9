#include "coordinator/service/plans/plan_repository.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/base/log.h"
#include "common/plan/seal.h"
#include "common/wire/codec.h"
#include "common/wire/ir_codec.h"
#include "common/wire/limits.h"
#include "common/wire/plan_names.h"
#include "coordinator/service/plans/owned_plan.h"

namespace coordinator::service {

using common::Result;

namespace {

uint64_t as_count(int64_t number) { return number > 0 ? static_cast<uint64_t>(number) : 0; }

common::SharedBytes share_text(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {common::as_bytes(*owner), owner};
}

// Whose a plan is that is not here, or cannot be read: no tenant is called so.
constexpr const char* kNobody = " ";

}  // namespace

Result<OwnedPlan> decode_owned(const std::string& stored) {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(common::as_bytes(stored)));
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(outer.bytes));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(grant.plan));
  OwnedPlan owned{outer.signer, std::move(grant.tenant), std::move(plan)};
  auto delegation = common::decode_delegation(outer.delegation);
  if (delegation.ok()) owned.delegation = *delegation;
  return owned;
}

common::PlanReady ReadyPlan::message(uint64_t request_id) const {
  common::PlanReady message;
  message.request_id = request_id;
  message.plan_key = key;
  message.plan = plan;
  message.cache = common::CacheOutcome::kHit;
  message.candidates = as_count(candidates);
  message.best_ns = as_count(best_ns);
  message.baseline_ns = as_count(baseline_ns);
  message.revocations = revocations;
  message.standing = standing;
  return message;
}

Result<std::optional<ReadyPlan>> PlanRepository::find(const std::string& tenant,
                                                      const common::Digest& key,
                                                      const std::string& machine,
                                                      cache::Lookup lookup) {
  common::Digest place = common::place_of(tenant, key, machine);
  LFARM_ASSIGN_OR_RETURN(std::optional<cache::StoredPlan> stored, store_.get_plan(place, lookup));
  if (!stored && lookup == cache::Lookup::kServe) {
    LFARM_ASSIGN_OR_RETURN(bool copied, copy_shared(tenant, key, machine));
    if (copied) {
      LFARM_ASSIGN_OR_RETURN(stored, store_.get_plan(place, lookup));
    }
  }
  if (!stored) return std::optional<ReadyPlan>();
  if (lookup == cache::Lookup::kServe) {
    tenants_.note_hit(tenant, as_count(stored->facts.search_ms));
  }
  LFARM_ASSIGN_OR_RETURN(auto found, ready(key, std::move(*stored)));
  if (found) found->machine = machine;
  return found;
}

Result<std::optional<ReadyPlan>> PlanRepository::find_any_target(const std::string& tenant,
                                                                 const common::Digest& graph_hash,
                                                                 const std::string& policy,
                                                                 const std::string& epoch,
                                                                 const std::string& family) {
  LFARM_ASSIGN_OR_RETURN(std::vector<common::Digest> places, store_.plans_of_graph(graph_hash));
  std::optional<common::Digest> best;
  std::string machine;
  for (const common::Digest& place : places) {
    LFARM_ASSIGN_OR_RETURN(std::optional<cache::StoredPlan> stored,
                           store_.get_plan(place, cache::Lookup::kInspect));
    if (!stored) continue;
    auto found = decode_owned(stored->bytes);
    if (!found.ok() || found->tenant != tenant) continue;
    const common::PlanKey& key = found->plan.key;
    if (key.policy != policy || key.epoch != epoch) continue;
    std::string_view made_for = common::family_of(key.target.name);
    if (!family.empty() && made_for != family) continue;
    bool is_cpu = made_for == "cpu";
    if (!best || is_cpu) {
      best = key.digest();
      machine = found->plan.provenance.machine;
    }
    if (is_cpu) break;
  }
  if (!best) return std::optional<ReadyPlan>();
  return find(tenant, *best, machine);
}

// Signed, and in the store as a blob, so that clients can ask for it by its digest.
Result<cache::NewPlan> PlanRepository::sealed(const std::string& tenant, const common::Plan& plan,
                                              const KeptPlan& how) const {
  if (revocations_log_.holds(plan.provenance)) {
    return common::Error{common::Code::kVerification,
                         common::cat("what worker ", plan.provenance.worker,
                                     " or its toolchain made at that time is revoked; submit the "
                                     "model again")};
  }
  common::PlanGrant grant{tenant, common::encode_plan(plan)};
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer,
                         seal(*signer_, Statement::kPlan, common::encode_grant(grant)));
  cache::NewPlan kept;
  kept.bytes = common::as_text(common::encode_sealed(outer));
  LFARM_ASSIGN_OR_RETURN(common::Digest digest, store_.put_blob(kept.bytes));
  common::Digest key = plan.key.digest();
  const std::string& machine = plan.provenance.machine;
  LFARM_RETURN_IF_ERROR(note_class(tenant, key, machine));
  kept.names = common::plan_names(plan, outer);
  kept.facts.key = common::place_of(tenant, key, machine);
  kept.facts.graph_hash = plan.key.graph_hash;
  kept.facts.plan_id = digest;
  kept.facts.best_ns = plan.provenance.best_ns;
  kept.facts.search_ms = how.search_ms;
  kept.needs = plan.objects;
  kept.needs.push_back(digest);
  kept.is_durable = !how.is_copy;
  if (!how.recipe.empty()) {
    LFARM_ASSIGN_OR_RETURN(common::Digest recipe, store_.put_blob(how.recipe));
    kept.needs.push_back(recipe);
  }
  return kept;
}

Result<common::Digest> PlanRepository::keep(const std::string& tenant, const common::Plan& plan,
                                            const KeptPlan& how) const {
  LFARM_ASSIGN_OR_RETURN(cache::NewPlan kept, sealed(tenant, plan, how));
  bool replaces = how.replaces;
  if (!replaces && !plan.provenance.search.is_interim) {
    LFARM_ASSIGN_OR_RETURN(auto there, store_.get_plan(kept.facts.key, cache::Lookup::kInspect));
    auto found = there ? decode_owned(there->bytes) : common::corrupt("none");
    replaces = found.ok() &&
               (found->plan.provenance.search.is_interim || there->facts.plan_id == how.compared);
  }
  bool is_new = true;
  if (replaces) {
    LFARM_RETURN_IF_ERROR(store_.put_plan(kept));
  } else {
    LFARM_ASSIGN_OR_RETURN(is_new, store_.put_plan_if_better(kept));
  }
  if (is_new) note_change(common::place_of(tenant, plan.key.digest()));
  return kept.facts.plan_id;
}

void PlanRepository::note_change(const common::Digest& place) const {
  std::lock_guard<std::mutex> lock(changes_mutex_);
  changes_.push_back(place);
}

std::vector<common::Digest> PlanRepository::take_changes() {
  std::lock_guard<std::mutex> lock(changes_mutex_);
  return std::exchange(changes_, {});
}

Result<std::vector<common::Digest>> PlanRepository::keep_imported(const std::string& tenant,
                                                                  std::vector<ForeignPlan> plans,
                                                                  const std::string& farm) const {
  std::vector<cache::NewPlan> kept;
  for (ForeignPlan& foreign : plans) {
    common::Provenance& provenance = foreign.plan.provenance;
    // A plan that comes home is as good as one that never left.
    if (foreign.signer != public_key()) {
      provenance.origin.plan = foreign.id;
      provenance.origin.signer = foreign.signer;
      provenance.origin.imported_by = farm;
    }
    LFARM_ASSIGN_OR_RETURN(cache::NewPlan one, sealed(tenant, foreign.plan, {}));
    bool is_twice = std::any_of(kept.begin(), kept.end(), [&](const cache::NewPlan& other) {
      return other.facts.key == one.facts.key;
    });
    if (is_twice) {
      return common::invalid_input(common::cat("two of the plans are for graph ",
                                               foreign.plan.key.graph_hash.short_hex(), " on ",
                                               foreign.plan.key.target.name, "; import one"));
    }
    kept.push_back(std::move(one));
  }
  LFARM_RETURN_IF_ERROR(store_.put_plans_if_better(kept));
  for (const ForeignPlan& one : plans) {
    note_change(common::place_of(tenant, one.plan.key.digest()));
  }
  std::vector<common::Digest> ids;
  for (const cache::NewPlan& one : kept) {
    LFARM_ASSIGN_OR_RETURN(auto there, store_.get_plan(one.facts.key, cache::Lookup::kInspect));
    ids.push_back(there ? there->facts.plan_id : one.facts.plan_id);
  }
  return ids;
}

Result<size_t> PlanRepository::revoke_imported(const common::PublicKey& signer,
                                               const common::RevocationList& list) {
  std::vector<common::Digest> ids;
  for (const common::Digest& origin : list.plans) {
    LFARM_ASSIGN_OR_RETURN(std::vector<common::Digest> places, store_.plans_named(origin));
    for (const common::Digest& place : places) {
      LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(place, cache::Lookup::kInspect));
      auto found = stored ? decode_owned(stored->bytes) : common::corrupt("gone");
      if (!found.ok()) continue;
      const common::Provenance& provenance = found->plan.provenance;
      bool is_named = provenance.origin.signer == signer && provenance.origin.plan == origin;
      if (is_named) ids.push_back(stored->facts.plan_id);
    }
  }
  LFARM_RETURN_IF_ERROR(revoke_all(ids, "the farm that signed it first has revoked it"));
  return ids.size();
}

Result<std::optional<WholePlan>> PlanRepository::with_objects(const ReadyPlan& plan) {
  auto known = whole_.find(plan.plan);
  if (known != whole_.end()) return std::optional(known->second);
  std::vector<std::string> objects;
  size_t bytes = common::part_end(plan.bytes.bytes.size());
  for (const common::Digest& digest : plan.objects) {
    LFARM_ASSIGN_OR_RETURN(auto object, store_.get_blob(digest));
    if (!object) return std::optional<WholePlan>();
    bytes += common::part_end(object->size());
    if (bytes > common::kPulledObjectsBytesMax) return std::optional<WholePlan>();
    objects.push_back(std::move(*object));
  }
  WholePlan whole;
  common::Bytes piece;
  piece.reserve(bytes);
  auto add = [&](const common::Digest& digest, common::ByteView part) {
    whole.parts.push_back({digest, part.size()});
    piece.insert(piece.end(), part.begin(), part.end());
    piece.resize(common::part_end(piece.size()));
  };
  add(plan.plan, plan.bytes.bytes);
  for (size_t i = 0; i < objects.size(); ++i) add(plan.objects[i], common::as_bytes(objects[i]));
  whole.bytes = common::share(std::move(piece));
  if (whole_bytes_ + bytes > kWholeBytesMax) {
    whole_.clear();
    whole_bytes_ = 0;
  }
  whole_bytes_ += bytes;
  return std::optional(whole_.emplace(plan.plan, std::move(whole)).first->second);
}

common::Status PlanRepository::load_revocations() { return revocations_log_.load(); }

void PlanRepository::tend_revocations(int64_t wall_ns) { revocations_log_.tend(wall_ns); }

Result<std::vector<common::Digest>> PlanRepository::plans_made(
    const common::RevocationRule& rule) const {
  std::vector<common::Digest> ids;
  auto look = [&](const cache::PlanListing& listing) -> common::Status {
    LFARM_ASSIGN_OR_RETURN(auto stored,
                           store_.get_plan(listing.facts.key, cache::Lookup::kInspect));
    auto found = stored ? decode_owned(stored->bytes) : common::corrupt("gone");
    if (!found.ok()) return {};
    const common::Provenance& made = found->plan.provenance;
    bool is_named = rule.holds(made.worker, made.toolchain, made.created_ns);
    if (is_named) ids.push_back(stored->facts.plan_id);
    return {};
  };
  LFARM_RETURN_IF_ERROR(store_.for_each_plan(look));
  return ids;
}

common::Status PlanRepository::add_rule(const common::RevocationRule& rule) {
  return revocations_log_.add_rule(rule);
}

Result<std::vector<common::Digest>> PlanRepository::revoke_made(std::vector<common::Digest> plans,
                                                                const std::string& reason) {
  LFARM_RETURN_IF_ERROR(revoke_all(plans, reason));
  if (plans.empty()) LFARM_RETURN_IF_ERROR(revocations_log_.sign_anew());
  return plans;
}

Result<std::vector<common::Digest>> PlanRepository::revoke(const common::Digest& id,
                                                           const std::string& reason) {
  LFARM_ASSIGN_OR_RETURN(std::vector<common::Digest> plans, plans_under(id));
  if (plans.empty()) plans.push_back(id);
  LFARM_RETURN_IF_ERROR(revoke_all(plans, reason));
  return plans;
}

common::Status PlanRepository::revoke_all(const std::vector<common::Digest>& plans,
                                          const std::string& reason) {
  if (plans.empty()) return {};
  LFARM_ASSIGN_OR_RETURN(std::vector<common::Digest> before, store_.revocations());
  if (before.size() + plans.size() > common::kDigestsMax) {
    return common::unsupported(
        common::cat("this farm has revoked ", before.size(),
                    " plans and can list no more; begin a farm with a new signing key instead"));
  }
  for (const common::Digest& plan : plans) {
    LFARM_ASSIGN_OR_RETURN(std::string owner, owner_of(plan));
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] uint64_t removed, store_.revoke(plan, reason, owner));
  }
  return revocations_log_.sign_anew();
}

Result<std::string> PlanRepository::owner_of(const common::Digest& plan) const {
  LFARM_ASSIGN_OR_RETURN(auto stored, store_.plan_of_id(plan));
  auto owned = stored ? decode_owned(stored->bytes) : common::corrupt("none");
  return owned.ok() ? std::move(owned->tenant) : std::string(kNobody);
}

// Plan keys are known only to the plans themselves: the store keeps each under its tenant's.
Result<std::vector<common::Digest>> PlanRepository::plans_under(const common::Digest& key) {
  std::vector<common::Digest> plans;
  LFARM_ASSIGN_OR_RETURN(std::vector<common::Digest> places, store_.plans_named(key));
  for (const common::Digest& place : places) {
    LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(place, cache::Lookup::kInspect));
    if (!stored) continue;
    if (stored->facts.plan_id == key) return std::vector<common::Digest>{key};
    auto found = decode_owned(stored->bytes);
    if (found.ok() && found->plan.key.digest() == key) plans.push_back(stored->facts.plan_id);
  }
  return plans;
}

common::Status PlanRepository::check_access(const std::string& tenant, const common::Digest& digest,
                                            common::ByteView blob) const {
  if (is_recipe(blob)) {
    return common::invalid_input(
        common::cat("blob ", digest.short_hex(), " is the farm's own; submit the model"));
  }
  auto outer = common::decode_sealed(blob);
  if (!outer.ok()) return {};
  auto grant = common::decode_grant(outer->bytes);
  if (!grant.ok()) return {};
  if (grant->tenant != tenant) {
    return common::invalid_input(common::cat("plan ", digest.short_hex(),
                                             " is another tenant's; submit the model to have one"));
  }
  LFARM_ASSIGN_OR_RETURN(std::optional<std::string> reason, store_.revocation(digest));
  if (!reason) return {};
  return common::Error{common::Code::kVerification,
                       common::cat("plan ", digest.short_hex(), " was revoked (", *reason,
                                   "); submit the model again")};
}

// Whether clients take it, now and for as long as a pull lasts.
bool PlanRepository::is_signed_well(const common::PublicKey& signer,
                                    const std::optional<common::Delegation>& delegation) const {
  if (signer != public_key()) return false;
  auto present = signer_->delegation();
  if (!delegation) return !present;
  bool is_void = present && delegation->number < present->oldest_valid;
  return !is_void && delegation->until_ns > common::wall_clock_ns();
}

Result<std::optional<cache::StoredPlan>> PlanRepository::signed_anew(
    const cache::StoredPlan& stored, const OwnedPlan& owned) {
  auto present = signer_->delegation();
  bool is_known = owned.signer == public_key() || common::contains(earlier_, owned.signer) ||
                  (present && present->key == owned.signer);
  if (!is_known) return std::optional<cache::StoredPlan>();
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer,
                         common::decode_sealed(common::as_bytes(stored.bytes)));
  if (!common::check_signature(outer, owned.signer, common::time_of(outer)).ok()) {
    return std::optional<cache::StoredPlan>();
  }
  KeptPlan how;
  how.search_ms = stored.facts.search_ms;
  LFARM_ASSIGN_OR_RETURN(cache::NewPlan anew, sealed(owned.tenant, owned.plan, how));
  anew.facts.key = stored.facts.key;
  // Its recipe comes along.
  for (const common::Digest& need : stored.needs) {
    bool is_new = need != stored.facts.plan_id && !common::contains(anew.needs, need);
    if (is_new) anew.needs.push_back(need);
  }
  LFARM_RETURN_IF_ERROR(store_.put_plan(anew));
  common::log_info(common::cat("plan ", stored.facts.plan_id.short_hex(),
                               " of an earlier key or delegation is signed anew"),
                   {{"plan", anew.facts.plan_id.hex()}, {"tenant", owned.tenant}});
  return store_.get_plan(anew.facts.key, cache::Lookup::kInspect);
}

Result<std::optional<ReadyPlan>> PlanRepository::ready(const common::Digest& key,
                                                       cache::StoredPlan stored) {
  ReadyPlan found;
  found.key = key;
  found.revocations = revocations_digest();
  found.plan = stored.facts.plan_id;
  found.objects = std::move(stored.needs);
  std::erase(found.objects, found.plan);
  found.best_ns = stored.facts.best_ns;
  auto origin = origins_.find(found.plan);
  if (origin != origins_.end() && !is_signed_well(public_key(), origin->second.delegation)) {
    origins_.erase(origin);
    origin = origins_.end();
  }
  if (origin == origins_.end()) {
    LFARM_ASSIGN_OR_RETURN(OwnedPlan owned, decode_owned(stored.bytes));
    if (!is_signed_well(owned.signer, owned.delegation)) {
      LFARM_ASSIGN_OR_RETURN(auto anew, signed_anew(stored, owned));
      if (anew && anew->facts.plan_id != found.plan) return ready(key, std::move(*anew));
      common::log_warning(common::cat("plan ", found.plan.short_hex(),
                                      " was signed with an earlier key; it is removed"));
      LFARM_ASSIGN_OR_RETURN([[maybe_unused]] bool removed, store_.remove_plan(stored.facts.key));
      return std::optional<ReadyPlan>();
    }
    if (origins_.size() >= kOriginsMax) origins_.clear();
    const common::Provenance& provenance = owned.plan.provenance;
    Origin facts{
        provenance.baseline_ns, provenance.search.candidates,
        provenance.search.is_interim ? common::Standing::kInterim : common::Standing::kFinal,
        effort_of(provenance), owned.delegation};
    origin = origins_.emplace(found.plan, facts).first;
  }
  found.baseline_ns = origin->second.baseline_ns;
  found.candidates = origin->second.candidates;
  found.standing = origin->second.standing;
  found.effort = origin->second.effort;
  found.bytes = share_text(std::move(stored.bytes));
  return std::optional<ReadyPlan>(std::move(found));
}

}  // namespace coordinator::service
