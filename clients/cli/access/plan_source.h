// The way from a model's graph to its plan: the cache, a farm that runs, or one of our own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/farm_processes.h"
#include "clients/cli/base/progress.h"
#include "clients/runtime/farm/farm_client.h"
#include "clients/runtime/farm/plan_resolver.h"
#include "clients/runtime/farm/state_directory.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"

namespace clients {

struct CompiledPlan {
  PulledPlan pulled;
  std::vector<common::StageTime> stages;  // of this process; the farm's are in pulled.facts
  bool is_from_disk = false;              // the farm was not asked
};

// With an endpoint in the options: a plan that this farm gave before and that lies on the clients'
// disk (disk_cache.h), else that farm. Without:
//   1. the farm that `lfarm up` runs on the state directory, if there is one;
//   2. else a plan that the state directory's cache holds: nothing is started;
//   3. else a farm of this process's own, which is stopped when this object goes. One process at a
//      time runs one on a state directory: others wait, and then look into the cache again.
// Not thread-safe. A signal that asks to stop (signals.h) ends every wait with an error.
class PlanSource {
 public:
  // What becomes of plans of a farm that the options name: they are looked for on the clients' disk
  // and kept there, or only kept, for whoever wants what the farm has now, or neither.
  enum class Disk { kUse, kKeep, kNone };
  PlanSource(FarmOptions options, BudgetOptions budget, Progress* progress,
             Disk disk = Disk::kNone);
  ~PlanSource();
  // For another thread, at the farm that this one has asked so far, if any; waits end with the
  // error that `on_wait` gives.
  std::unique_ptr<PlanSource> beside(Progress* progress,
                                     std::function<common::Status()> on_wait) const;
  PlanSource(const PlanSource&) = delete;
  PlanSource& operator=(const PlanSource&) = delete;

  // `name`: what the farm calls the job, unless the options say it.
  common::Result<CompiledPlan> obtain(const common::Graph& graph, const std::string& name = "");
  // What the farm that the options name has instead of a plan of the clients' disk, which is kept
  // there; empty when that is the same. Starts no farm. `on_wait`: see FarmClientOptions.
  common::Result<std::optional<PulledPlan>> find_newer(
      const PulledPlan& plan, const std::function<common::Status()>& on_wait);
  // A running farm, started if need be, for other processes to use.
  common::Result<std::string> require_farm();
  // What the time of a job went on, by the farm that this asked (FarmClient::trace). kUnavailable
  // where no farm was asked.
  common::Result<std::string> trace(uint64_t job);
  // Looks after a farm of our own; to be called several times a second.
  common::Status tend();

 private:
  common::Status connect(const std::string& endpoint);
  common::Status find_own_device();
  common::Result<bool> start_or_join();
  PlanQuery query_of(const common::Graph& graph, const common::PlanKey& key,
                     const std::string& name) const;
  common::Result<SharedPlan> ask_farm(PlanQuery query, PlanWay way);

  FarmOptions options_;
  BudgetOptions budget_;
  Progress* progress_;
  StateDirectory state_;
  std::unique_ptr<FarmProcesses> own_;
  std::string own_device_;  // what a farm of our own makes plans on, once it was asked for
  std::unique_ptr<FarmClient> client_;
  const Disk disk_use_;
  std::function<common::Status()> on_wait_;  // asked in waits, besides signals; may be empty
  PlanResolver resolver_;
};

// What people call the model in this file: the file's name without its ending or, where that is
// only "model", its folder's. Empty when it is no clean text.
std::string model_name(const std::string& path);

FarmAccess access_of(const FarmOptions& options);

// Connects to the farm that the options name, or that runs on the state directory. kUnavailable
// when there is none; never starts one.
common::Result<std::unique_ptr<FarmClient>> connect_to_farm(const FarmOptions& options);

}  // namespace clients
