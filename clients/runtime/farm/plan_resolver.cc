#include "clients/runtime/farm/plan_resolver.h"

#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/codec.h"

namespace clients {

using common::cat;
using common::Code;
using common::Digest;
using common::PlanKey;
using common::Result;
using common::Standing;
using common::Status;

common::Graph graph_for_farm(const common::Graph& graph) {
  common::Graph told = common::canonical(graph);
  for (size_t i = 0; i < told.inputs.size(); ++i) {
    const common::GraphInput& input = graph.inputs[i];
    bool is_told = input.kind != common::InputKind::kUser && common::is_clean_line(input.name);
    if (is_told) told.inputs[i].name = input.name;
  }
  return told;
}

bool PlanQuery::is_enough(const PulledPlan& plan) const {
  if (search.force) return false;
  if (plan.facts.standing == Standing::kInterim && !takes_interim) return false;
  if (plan.facts.standing == Standing::kNeighbour && !takes_neighbour) return false;
  bool has_budget = search.budget_candidates != 0 || search.budget_ms != 0;
  if (search.only_reverify || !has_budget) return true;
  if (!takes_any_seed && plan.plan.provenance.search.seed != search.seed) return false;
  return was_given(plan.plan.provenance, search.budget_candidates, search.budget_ms);
}

PlanResolver::PlanResolver(Options options)
    : options_(std::move(options)),
      disk_(options_.access.state.client_plans(), options_.cache_bytes),
      met_(options_.access.state.met_farms()) {}

// ---- Without a farm ----------------------------------------------------------------------------

Result<std::optional<PulledPlan>> PlanResolver::find_with(Find find, PlanKey key) {
  auto farm = met_.find(options_.access.endpoint);
  if (!farm) return std::optional<PulledPlan>();
  LFARM_ASSIGN_OR_RETURN(PlanTrust trust, trust_of_met(options_.access, *farm));
  key.epoch = farm->epoch;
  auto plan = (disk_.*find)(key, trust, options_.machine);
  // Imported, or kept by a release before machine classes.
  if (plan.ok() && !*plan) return (disk_.*find)(key, trust, {});
  return plan;
}

std::optional<PulledPlan> PlanResolver::find_on_disk(const PlanKey& key) {
  auto plan = find_with(&DiskCache::find, key);
  if (plan.ok()) return std::move(plan).value();
  common::log_warning(plan.error().message);
  return std::nullopt;
}

Result<std::optional<PulledPlan>> PlanResolver::look_up_on_disk(const PlanKey& key) {
  return find_with(&DiskCache::look_up, key);
}

Result<std::optional<PulledPlan>> PlanResolver::find_in_store(const PlanKey& key) {
  if (!options_.store) return std::optional<PulledPlan>();
  auto found = options_.store(key, options_.machine);
  if (found.ok() || found.error().code != Code::kCorrupt) return found;
  common::log_warning(cat("a cached plan is damaged: ", found.error().message));
  return std::optional<PulledPlan>();
}

void PlanResolver::forget(const PlanKey& key, const PlanTrust& trust) const {
  disk_.forget(key, trust, options_.machine);
  disk_.forget(key, trust);
}

// ---- At the farm -------------------------------------------------------------------------------

Result<WatchedPlan> PlanResolver::pull(FarmClient& farm, const PlanKey& key, const Digest& known,
                                       bool watch) {
  PlanKey theirs = key;
  theirs.epoch = farm.compiler_epoch();
  auto pulled = watch ? farm.watch(theirs, options_.machine, known)
                      : farm.pull_newer(theirs, options_.machine, known);
  if (pulled.ok() && pulled->plan) keep(farm, *pulled->plan);
  return pulled;
}

Result<SharedPlan> PlanResolver::ask(FarmClient& farm, PlanQuery query, SharedPlan known,
                                     const PlanWay& way) {
  const PlanKey& key = query.search.key;
  // Which target a family is, only the farm knows.
  if (!common::is_family(key.target.name)) {
    LFARM_ASSIGN_OR_RETURN(WatchedPlan pulled, pull(farm, key, known ? known->id : Digest{}));
    if (way.on_answered) way.on_answered();
    if (pulled.plan) {
      known = std::make_shared<const PulledPlan>(std::move(*pulled.plan));
      if (way.on_better) way.on_better(known);
    }
    bool will_do = known && (!query.graph || query.is_enough(*known));
    if (pulled.facts && will_do) return known;
  }
  if (query.graph) return search(farm, std::move(query), way);
  return common::unavailable(cat("the farm has no plan of graph ", key.graph_hash.short_hex(),
                                 " for ", key.target.name, ": submit its model there first"));
}

Result<SharedPlan> PlanResolver::search(FarmClient& farm, PlanQuery query, const PlanWay& way) {
  SubmitRequest request = std::move(query.search);
  request.key.epoch = farm.compiler_epoch();
  request.machine = options_.machine;
  request.graph = query.graph();
  if (way.on_search) way.on_search();
  LFARM_ASSIGN_OR_RETURN(PulledPlan found, farm.submit(
                                               request,
                                               [&](uint64_t job) {
                                                 if (way.on_accepted) way.on_accepted(job);
                                               },
                                               [&](const common::Progress& progress) {
                                                 if (way.on_progress) way.on_progress(progress);
                                               }));
  keep(farm, found);
  return std::make_shared<const PulledPlan>(std::move(found));
}

// A disk that takes nothing costs the next start a fetch, and this one nothing.
void PlanResolver::keep(FarmClient& farm, const PulledPlan& plan) {
  if (!options_.keeps) return;
  auto trust = farm.trust();
  Status kept = trust.ok() ? disk_.put(plan, *trust, options_.machine) : Status(trust.error());
  if (kept.ok()) {
    kept = met_.remember(options_.access.endpoint,
                         {trust->signer, trust->tenant, plan.plan.key.epoch});
  }
  if (!kept.ok()) common::log_warning(cat("a plan is not kept: ", kept.error().message));
}

}  // namespace clients
