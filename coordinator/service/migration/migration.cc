#include "coordinator/service/migration/migration.h"

#include <optional>
#include <string>
#include <vector>

#include "cache/engine/name_walk.h"
#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/plan/seal.h"
#include "coordinator/service/migration/moved_journals.h"

namespace coordinator::service {

using cache::ShardRecord;
using common::cat;
using common::Code;
using common::Digest;
using common::Result;
using common::Status;

namespace {

PlanPlace place_of(const OwnedPlan& owned) {
  return {owned.tenant, owned.plan.key.digest(), owned.plan.provenance.machine,
          owned.plan.key.graph_hash};
}

int64_t best_ns(const OwnedPlan& owned) { return owned.plan.provenance.best_ns; }

}  // namespace

Migration::Migration(const SharedTierSetup& setup, Sharding& sharding, const FarmHold& hold,
                     const SharedSigner& signer, cache::Store& store)
    : sharding_(sharding),
      hold_(hold),
      store_(store),
      remote_(setup.remote),
      records_(remote_, setup.objects, &sharding),
      tenants_(store),
      repository_(store, signer, tenants_),
      peers_(remote_, records_, store, repository_, {signer, {}}, setup.options.claim_ms),
      notes_(remote_, store, signer),
      measurements_(remote_, store, signer) {}

// What was revoked on one side must not come back from the other.
Status Migration::begin() {
  counts_ = {};
  LFARM_RETURN_IF_ERROR(repository_.load_revocations());
  LFARM_RETURN_IF_ERROR(peers_.load());
  PeerPlans::News news = peers_.learn_revocations();
  if (!news.is_whole) {
    return common::unavailable(
        cat("the revocations at ", remote_.address(), " cannot be read: ",
            remote_.health().trouble.empty() ? "see the log" : remote_.health().trouble));
  }
  LFARM_RETURN_IF_ERROR(repository_.revoke_all(news.plans, "revoked by another coordinator"));
  peers_.note_applied(news);
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> revoked, store_.revocations());
  if (!revoked.empty()) LFARM_RETURN_IF_ERROR(peers_.publish_revocations(revoked, {}));
  counts_.revocations = revoked.size();
  LFARM_ASSIGN_OR_RETURN(ReplicaNotes::Usages usages, notes_.pull());
  tenants_.adopt(usages);
  for (const cache::Changes::Named& record : tenants_.take_changes()) {
    LFARM_RETURN_IF_ERROR(store_.put_named(record.name, record.bytes));
  }
  return notes_.push();
}

Status Migration::count(Fate fate, const Progress& progress) {
  ++counts_.seen;
  switch (fate) {
    case Fate::kCopied:
      ++counts_.copied;
      break;
    case Fate::kThere:
      ++counts_.there;
      break;
    case Fate::kPassedOver:
      ++counts_.passed_over;
      break;
    case Fate::kRefused:
      ++counts_.refused;
      break;
  }
  LFARM_RETURN_IF_ERROR(hold_.check());
  return progress(counts_);
}

Result<MigrationCounts> Migration::to_engine(const Progress& progress) {
  LFARM_RETURN_IF_ERROR(begin());
  LFARM_ASSIGN_OR_RETURN(cache::StoreStats stats, store_.stats());
  counts_.plans = stats.plans.count;
  LFARM_RETURN_IF_ERROR(store_.for_each_plan([&](const cache::PlanListing& plan) -> Status {
    LFARM_ASSIGN_OR_RETURN(Fate fate, to_engine(plan));
    return count(fate, progress);
  }));
  LFARM_ASSIGN_OR_RETURN(counts_.measurements, measurements_.give());
  LFARM_RETURN_IF_ERROR(move_jobs(true));
  return counts_;
}

Result<Migration::Fate> Migration::to_engine(const cache::PlanListing& plan) {
  LFARM_ASSIGN_OR_RETURN(auto stored, store_.get_plan(plan.facts.key, cache::Lookup::kInspect));
  if (!stored) return Fate::kRefused;  // it lost an object
  auto owned = decode_owned(stored->bytes);
  if (!owned.ok()) return Fate::kRefused;
  if (owned->plan.provenance.search.is_interim) return Fate::kPassedOver;
  PlanPlace place = place_of(*owned);
  if (place.digest() != plan.facts.key) return Fate::kRefused;
  LFARM_ASSIGN_OR_RETURN(auto before, records_.get(place));
  (void)peers_.fetch(place);
  Status offered = peers_.offer(place);
  if (!offered.ok()) {
    if (offered.error().code != Code::kUnsupported) return offered.error();
    common::log_warning(cat("a plan stays where it is: ", offered.error().message));
    return Fate::kRefused;
  }
  LFARM_ASSIGN_OR_RETURN(auto after, records_.get(place));
  auto taken = after ? decode_owned(*after) : Result<OwnedPlan>(common::corrupt("no plan"));
  LFARM_ASSIGN_OR_RETURN(bool has_objects, taken.ok() ? records_.has_objects(taken->plan.objects)
                                                      : Result<bool>(false));
  if (!taken.ok() || !has_objects || best_ns(*taken) > best_ns(*owned)) {
    return common::corrupt(
        cat("plan ", stored->facts.plan_id.short_hex(), " did not come back from the engine"));
  }
  LFARM_ASSIGN_OR_RETURN(auto recipe, records_.recipe(place));
  if (recipe) ++counts_.recipes;
  return before == after ? Fate::kThere : Fate::kCopied;
}

Result<bool> Migration::has_recipe(const cache::StoredPlan& stored, const OwnedPlan& owned) const {
  LFARM_ASSIGN_OR_RETURN(auto recipe, peers_.recipe_here(stored, owned.plan.objects));
  return recipe.has_value();
}

Result<MigrationCounts> Migration::to_store(const Progress& progress) {
  LFARM_RETURN_IF_ERROR(begin());
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    LFARM_ASSIGN_OR_RETURN(uint64_t plans, sharding_.engine.count(shard, ShardRecord::kPlan));
    counts_.plans += plans;
  }
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    cache::NameWalk walk(sharding_.engine, shard, ShardRecord::kPlan);
    while (!walk.is_done()) {
      LFARM_ASSIGN_OR_RETURN(std::vector<Digest> names, walk.next());
      for (const Digest& name : names) {
        LFARM_ASSIGN_OR_RETURN(Fate fate, to_store(shard, name));
        LFARM_RETURN_IF_ERROR(count(fate, progress));
      }
    }
  }
  LFARM_ASSIGN_OR_RETURN(counts_.measurements, measurements_.take());
  LFARM_RETURN_IF_ERROR(move_jobs(false));
  return counts_;
}

Result<Migration::Fate> Migration::to_store(uint32_t shard, const Digest& name) {
  LFARM_ASSIGN_OR_RETURN(auto bytes, sharding_.engine.read(shard, ShardRecord::kPlan, name));
  auto owned = bytes ? decode_owned(*bytes) : Result<OwnedPlan>(common::corrupt("no plan"));
  if (!owned.ok()) return Fate::kRefused;
  PlanPlace place = place_of(*owned);
  if (place.digest() != name || place.shard() != shard) return Fate::kRefused;
  LFARM_ASSIGN_OR_RETURN(auto revoked, store_.revocation(common::digest_of(*bytes)));
  if (revoked) return Fate::kPassedOver;
  LFARM_ASSIGN_OR_RETURN(auto before, store_.get_plan(name, cache::Lookup::kInspect));
  const bool is_there = before && before->facts.best_ns <= best_ns(*owned);
  if (is_there) {
    LFARM_ASSIGN_OR_RETURN(auto recipe, records_.recipe(place));
    LFARM_ASSIGN_OR_RETURN(bool is_known, has_recipe(*before, *owned));
    // The same plan, that an earlier release has moved.
    bool is_without = recipe && !is_known && before->bytes == *bytes;
    if (is_known) ++counts_.recipes;
    if (!is_without) return Fate::kThere;
  }
  bool is_taken = peers_.fetch(place);
  if (!is_taken) {
    std::string trouble = records_.trouble();
    return trouble.empty() ? Result<Fate>(Fate::kRefused) : common::unavailable(trouble);
  }
  LFARM_ASSIGN_OR_RETURN(auto after, store_.get_bundle(name));
  if (after && after->plan.facts.best_ns <= best_ns(*owned)) {
    LFARM_ASSIGN_OR_RETURN(bool is_known, has_recipe(after->plan, *owned));
    if (is_known) ++counts_.recipes;
    return is_there ? Fate::kThere : Fate::kCopied;
  }
  return common::corrupt(cat("plan ", common::digest_of(*bytes).short_hex(),
                             " did not come back from the state directory"));
}

Status Migration::move_jobs(bool is_to_engine) {
  LFARM_ASSIGN_OR_RETURN(MovedJournals moved, is_to_engine ? journals_to_engine(store_, sharding_)
                                                           : journals_to_store(sharding_, store_));
  counts_.jobs = moved.moved;
  counts_.jobs_left = moved.left;
  return hold_.check();
}

}  // namespace coordinator::service
