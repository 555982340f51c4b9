#include "coordinator/service/plans/plan_making.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/llir/kernel_identity.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/plans/owned_plan.h"
#include "coordinator/service/plans/recipe.h"

namespace coordinator::service {

using common::Digest;

namespace {

// More than there are targets, classes, policies and tenants for one graph.
constexpr size_t kPlansOfGraphMax = 10'000;

}  // namespace

std::optional<PlanMaking> making_of(cache::Store& store, const cache::StoredPlan& stored,
                                    const common::Plan& plan) {
  for (const Digest& need : stored.needs) {
    bool is_object = std::count(plan.objects.begin(), plan.objects.end(), need) != 0;
    if (is_object || need == stored.facts.plan_id) continue;
    auto blob = store.get_blob(need);
    if (!blob.ok() || !*blob || !is_recipe(common::as_bytes(**blob))) continue;
    auto recipe = decode_recipe(common::as_bytes(**blob));
    if (!recipe.ok()) continue;
    auto payload = common::decode_task_payload(recipe->payload);
    if (!payload.ok() || payload->program.kernels.size() != plan.kernels.size()) continue;
    PlanMaking making{std::move(payload->program), {}};
    making.origins.resize(plan.kernels.size());
    if (auto graph = common::decode_graph(recipe->graph); graph.ok()) {
      making.origins = common::kernel_origins(plan, graph->inputs);
    }
    return making;
  }
  return std::nullopt;
}

std::string kernel_name(common::Template form, const Digest& body) {
  return common::cat(common::template_name(form), " ", body.short_hex());
}

std::map<std::string, common::KernelOrigin> origins_by_name(cache::Store& store,
                                                            const std::string& tenant,
                                                            const std::string& graph,
                                                            const std::string& target,
                                                            const std::string& policy) {
  std::map<std::string, common::KernelOrigin> by_name;
  auto all = store.plans_beginning(graph, kPlansOfGraphMax);
  if (!all.ok()) return by_name;
  std::erase_if(*all,
                [&](const cache::PlanListing& one) { return one.facts.graph_hash.hex() != graph; });
  std::sort(all->begin(), all->end(),
            [](const auto& a, const auto& b) { return a.created_wall_ns > b.created_wall_ns; });
  for (const cache::PlanListing& listing : *all) {
    auto stored = store.get_plan(listing.facts.key, cache::Lookup::kInspect);
    if (!stored.ok() || !*stored) continue;
    auto owned = decode_owned((*stored)->bytes);
    if (!owned.ok() || owned->tenant != tenant || owned->plan.key.target.name != target ||
        owned->plan.key.policy != policy) {
      continue;
    }
    auto making = making_of(store, **stored, owned->plan);
    if (!making) continue;
    std::vector<Digest> bodies = common::body_hashes(making->program);
    for (size_t k = 0; k < bodies.size(); ++k) {
      by_name[kernel_name(making->program.kernels[k].form, bodies[k])] = making->origins[k];
    }
    return by_name;
  }
  return by_name;
}

}  // namespace coordinator::service
