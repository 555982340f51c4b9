// Finds plans beyond a program's own memory, for every client alike: first on the clients' disk or
// in the state directory's store, then at the farm, which searches where it has none. What the farm
// gives is kept on the disk.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "clients/runtime/farm/disk_cache.h"
#include "clients/runtime/farm/farm_access.h"
#include "clients/runtime/farm/farm_client.h"
#include "clients/runtime/farm/met_farms.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/plan/plan.h"

namespace clients {

// The graph as farms get it: canonical, but with the names of weights and states, by which a farm
// says what kernels are for. No name is part of a plan's key.
common::Graph graph_for_farm(const common::Graph& graph);

using SharedPlan = std::shared_ptr<const PulledPlan>;

// What plan is wanted, and which of those that are there will do.
struct PlanQuery {
  // Its key and the search that is asked for where no plan will do. The resolver fills in the
  // graph, the machine class and, where a farm is asked, the key's epoch.
  SubmitRequest search;
  // Encodes graph_for_farm(); empty: only its hash is known, and no farm is asked to search.
  std::function<common::Bytes()> graph;
  // Whether a plan will do whose search goes on, or that was chosen on another machine class.
  bool takes_interim = false;
  bool takes_neighbour = false;
  bool takes_any_seed = false;  // whatever seed a search with this budget had

  // Whether no search needs to be asked for.
  bool is_enough(const PulledPlan& plan) const;
};

// What a caller learns on the way; each may be empty.
struct PlanWay {
  std::function<void()> on_answered = {};          // the farm has said what plan it has
  std::function<void(SharedPlan)> on_better = {};  // this one, which may not be enough
  std::function<void()> on_search = {};            // it is asked for a search now
  std::function<void(uint64_t job)> on_accepted = {};
  std::function<void(const common::Progress&)> on_progress = {};
};

// Thread-safe. Every function but the constructor may read files or wait for a farm: do not hold a
// lock that a caller who must not wait also takes.
class PlanResolver {
 public:
  // Plans of a state directory without its farm; empty when there is none.
  using Store = std::function<common::Result<std::optional<PulledPlan>>(
      const common::PlanKey& key, const std::string& machine)>;
  struct Options {
    FarmAccess access;
    std::string machine;  // class that plans are for
    uint64_t cache_bytes = DiskCache::kBytesMaxDefault;
    bool keeps = true;  // on the clients' disk, what farms give
    Store store = {};
  };
  explicit PlanResolver(Options options);

  const std::string& machine() const { return options_.machine; }

  // The plan that the farm gave some time ago, with its objects. Empty also when the farm was never
  // met, so that nobody knows whose plans to take.
  std::optional<PulledPlan> find_on_disk(const common::PlanKey& key);
  // The same without a check of its objects, which must not be loaded: DiskCache::look_up().
  common::Result<std::optional<PulledPlan>> look_up_on_disk(const common::PlanKey& key);
  // Empty where there is no store, or what it has is damaged.
  common::Result<std::optional<PulledPlan>> find_in_store(const common::PlanKey& key);

  // What the farm has under the key, unless it is `known` (zero: none); no search. With `watch` the
  // farm sends news of the key from now on.
  common::Result<WatchedPlan> pull(FarmClient& farm, const common::PlanKey& key,
                                   const common::Digest& known, bool watch = false);
  // A plan from the farm that is enough: `known`, what the farm has, or what its search comes to.
  // Without a graph, whatever the farm has; kUnavailable when that is none.
  common::Result<SharedPlan> ask(FarmClient& farm, PlanQuery query, SharedPlan known,
                                 const PlanWay& way);
  // What the farm's search comes to, whatever plan is there.
  common::Result<SharedPlan> search(FarmClient& farm, PlanQuery query, const PlanWay& way);

  // Removes a plan of the farm's that must not be used any more.
  void forget(const common::PlanKey& key, const PlanTrust& trust) const;
  // The right to fetch the plan for all processes of this machine; see DiskCache::try_fly().
  std::optional<DiskCache::Flight> try_fly(const common::Digest& what) {
    return disk_.try_fly(what);
  }

 private:
  using Find = common::Result<std::optional<PulledPlan>> (DiskCache::*)(const common::PlanKey&,
                                                                        const PlanTrust&,
                                                                        const std::string&);
  common::Result<std::optional<PulledPlan>> find_with(Find find, common::PlanKey key);
  void keep(FarmClient& farm, const PulledPlan& plan);

  const Options options_;
  DiskCache disk_;
  const MetFarms met_;
};

}  // namespace clients
