// Searches that nobody waits for: for machine classes that got a neighbour's plan, and for plans
// that a new toolchain has made useless.
#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/jobs/job_table.h"
#include "coordinator/service/plans/owned_plan.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Result;

namespace {

constexpr int64_t kWishesLookMs = 200;
// After a search that came to nothing.
constexpr int64_t kWishRestMs = 600'000;
constexpr uint32_t kBackgroundPriority = 1;

}  // namespace

Result<bool> JobTable::answer_with_neighbour(const std::string& peer, const common::Principal& who,
                                             const common::Submit& request,
                                             const common::PlanKey& key, const std::string& machine,
                                             common::SharedBytes graph) {
  // Who forces a search waits for it.
  if (request.force) return false;
  LFARM_ASSIGN_OR_RETURN(auto ready, env_.plans.find_neighbour(who.tenant, key.digest(), machine));
  if (!ready) return false;
  env_.outbox.send(peer, ready->message(request.request_id), ready->bytes);
  if (machine.empty() || job_for(who.tenant, key, machine)) return true;
  // The client's graph spares the farm the plan's recipe, which not every plan has.
  bool can_search = graph && common::digest_of(graph.bytes) == request.graph &&
                    env_.workers.has(key.target.name, machine) && env_.store.trouble().empty() &&
                    env_.tenants.exhausted(who.tenant, common::wall_clock_ns()).empty();
  if (!can_search) {
    wished_.wishes.add({who.tenant, key, machine});
    return true;
  }
  auto job = make(who, request, key, machine);
  if (!job.ok()) {
    wished_.wishes.add({who.tenant, key, machine});
    return true;
  }
  (*job)->give_graph(std::move(graph));
  if ((*job)->phase() == Phase::kAdmitting) admit(**job);
  return true;
}

void JobTable::wish_for(const std::string& tenant, const ReadyPlan& plan,
                        const std::string& machine) {
  auto owned = decode_owned(std::string(common::as_text(plan.bytes.bytes)));
  if (owned.ok() && !machine.empty()) wished_.wishes.add({tenant, owned->plan.key, machine});
}

// One at a time, so that those who wait for a plan go first.
void JobTable::grant_wish(int64_t now_ns) {
  if (now_ns - wished_.looked_ns < kWishesLookMs * kNsPerMs) return;
  wished_.looked_ns = now_ns;
  write_wishes();
  if (wished_.job != 0) return;
  const Wish* next = wished_.wishes.next(now_ns, [&](const Wish& wish) {
    return env_.workers.has(wish.key.target.name, wish.machine) &&
           env_.tenants.exhausted(wish.tenant, common::wall_clock_ns()).empty() &&
           job_for(wish.tenant, wish.key, wish.machine) == nullptr;
  });
  if (next == nullptr) return;
  const Wish wish = *next;
  const Digest key = wish.key.digest();
  auto there = env_.plans.find(wish.tenant, key, wish.machine, cache::Lookup::kInspect);
  bool is_granted = there.ok() && *there && (*there)->standing != common::Standing::kInterim;
  if (is_granted || wish.key.epoch != env_.options.epoch)
    return wished_.wishes.remove(wish.place());
  auto recipe = env_.plans.find_recipe(wish.tenant, key);
  bool begun =
      recipe.ok() && recipe->has_value() && search_for(wish.tenant, **recipe, wish.machine);
  if (!begun) return wished_.wishes.rest(wish.place(), now_ns + kWishRestMs * kNsPerMs);
  wished_.job = last_id_;
  common::log_info("a plan is searched for on the machine class that asked for it",
                   {{"job", wished_.job}, {"tenant", wish.tenant}, {"machine", wish.machine}});
}

// The plan's recipe has the graph.
bool JobTable::search_for(const std::string& tenant, const EarlierPlan& plan,
                          const std::string& machine) {
  common::PlanKey key = plan.key;
  key.epoch = env_.options.epoch;
  bool may_search = env_.store.trouble().empty() &&
                    env_.tenants.exhausted(tenant, common::wall_clock_ns()).empty() &&
                    job_for(tenant, key, machine) == nullptr;
  if (!may_search) return false;
  common::Principal who;
  who.tenant = tenant;
  common::Submit request;
  request.graph_hash = key.graph_hash;
  request.graph = common::digest_of(plan.recipe.graph);
  const common::Provenance& provenance = plan.plan.provenance;
  request.budget_candidates =
      static_cast<uint64_t>(std::max<int64_t>(0, provenance.search.budget_candidates));
  request.budget_ms = static_cast<uint64_t>(std::max<int64_t>(0, provenance.search.budget_ms));
  request.seed = provenance.search.seed;
  request.priority = kBackgroundPriority;
  auto job = make(who, request, std::move(key), machine);
  if (!job.ok()) return false;
  (*job)->give_graph(common::share(common::Bytes(plan.recipe.graph)));
  if ((*job)->phase() == Phase::kAdmitting) admit(**job);
  return true;
}

void JobTable::wish_job_ended(const Job& job) {
  bool is_for_wish = job.request().id == wished_.job;
  if (is_for_wish) wished_.job = 0;
  if (wished_.wishes.size() == 0) return;
  const JobRequest& request = job.request();
  const Digest place = common::place_of(request.tenant, request.key.digest(), job.machine());
  if (wished_.wishes.find(place) == nullptr) return;
  auto plan =
      env_.plans.find(request.tenant, request.key.digest(), job.machine(), cache::Lookup::kInspect);
  bool is_granted = plan.ok() && *plan && (*plan)->standing != common::Standing::kInterim;
  if (is_granted) return wished_.wishes.remove(place);
  if (is_for_wish) wished_.wishes.rest(place, env_.clock.now_ns() + kWishRestMs * kNsPerMs);
}

void JobTable::write_wishes() {
  if (!wished_.wishes.take_changed()) return;
  env_.commits.put(
      [bytes = wished_.wishes.bytes()](cache::Changes& changes) {
        changes.named.push_back({Wishes::kRecord, bytes});
      },
      [](const common::Status&) {});
}

}  // namespace coordinator::service
