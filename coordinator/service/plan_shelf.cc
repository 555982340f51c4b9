#include "coordinator/service/plan_shelf.h"

#include <memory>
#include <utility>

#include "common/wire/ir_codec.h"

namespace coordinator::service {

using common::Result;

namespace {

uint64_t as_count(int64_t number) { return number > 0 ? static_cast<uint64_t>(number) : 0; }

common::SharedBytes share_text(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {common::as_bytes(*owner), owner};
}

Result<common::Plan> decode(const std::string& stored) {
  LFARM_ASSIGN_OR_RETURN(common::SignedPlan outer,
                         common::decode_signed_plan(common::as_bytes(stored)));
  return common::decode_plan(outer.bytes);
}

}  // namespace

common::PlanReady ReadyPlan::message(uint64_t request_id) const {
  common::PlanReady message;
  message.request_id = request_id;
  message.plan_key = key;
  message.plan = plan;
  message.cache = common::CacheOutcome::kHit;
  message.candidates = as_count(candidates);
  message.best_ns = as_count(best_ns);
  message.baseline_ns = as_count(baseline_ns);
  return message;
}

Result<std::optional<ReadyPlan>> PlanShelf::find(const common::Digest& key, cache::Lookup lookup) {
  LFARM_ASSIGN_OR_RETURN(std::optional<cache::StoredPlan> stored, store_.get_plan(key, lookup));
  if (!stored) return std::optional<ReadyPlan>();
  LFARM_ASSIGN_OR_RETURN(ReadyPlan found, ready(std::move(*stored)));
  return std::optional<ReadyPlan>(std::move(found));
}

Result<std::optional<ReadyPlan>> PlanShelf::find_any_target(const common::Digest& graph_hash,
                                                            const std::string& policy,
                                                            const std::string& family) {
  LFARM_ASSIGN_OR_RETURN(std::vector<common::Digest> keys, store_.plans_of_graph(graph_hash));
  std::optional<cache::StoredPlan> best;
  for (const common::Digest& key : keys) {
    LFARM_ASSIGN_OR_RETURN(std::optional<cache::StoredPlan> stored,
                           store_.get_plan(key, cache::Lookup::kInspect));
    if (!stored) continue;
    auto plan = decode(stored->bytes);
    if (!plan.ok() || plan->key.policy != policy || plan->key.epoch != common::kCompilerEpoch) {
      continue;
    }
    std::string_view made_for = common::family_of(plan->key.target.name);
    if (!family.empty() && made_for != family) continue;
    bool is_cpu = made_for == "cpu";
    if (!best || is_cpu) best = std::move(stored);
    if (is_cpu) break;
  }
  if (!best) return std::optional<ReadyPlan>();
  return find(best->facts.key);
}

common::Status PlanShelf::keep(const common::Plan& plan, int64_t search_ms) const {
  common::SignedPlan outer = common::sign_plan(key_, common::encode_plan(plan));
  cache::NewPlan kept;
  kept.bytes = common::as_text(common::encode_signed_plan(outer));
  // The plan is also a blob, so that clients can ask for it by its digest.
  LFARM_ASSIGN_OR_RETURN(common::Digest digest, store_.put_blob(kept.bytes));
  kept.facts.key = plan.key.digest();
  kept.facts.graph_hash = plan.key.graph_hash;
  kept.facts.plan_id = digest;
  kept.facts.best_ns = plan.provenance.best_ns;
  kept.facts.search_ms = search_ms;
  kept.needs = plan.objects;
  kept.needs.push_back(digest);
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] bool is_new, store_.put_plan_if_better(kept));
  return {};
}

Result<ReadyPlan> PlanShelf::ready(cache::StoredPlan stored) {
  ReadyPlan found;
  found.key = stored.facts.key;
  found.plan = stored.facts.plan_id;
  found.best_ns = stored.facts.best_ns;
  auto origin = origins_.find(found.plan);
  if (origin == origins_.end()) {
    LFARM_ASSIGN_OR_RETURN(common::Plan plan, decode(stored.bytes));
    if (origins_.size() >= kOriginsMax) origins_.clear();
    Origin facts{plan.provenance.baseline_ns, plan.provenance.candidates};
    origin = origins_.emplace(found.plan, facts).first;
  }
  found.baseline_ns = origin->second.baseline_ns;
  found.candidates = origin->second.candidates;
  found.bytes = share_text(std::move(stored.bytes));
  return found;
}

}  // namespace coordinator::service
