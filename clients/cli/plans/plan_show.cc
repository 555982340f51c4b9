// lfarm plan show: a plan of the cache, through a farm or straight from the store's files.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/plan_cache.h"
#include "clients/cli/base/plan_source.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/find_plan.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/farm/plan_resolver.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Result;

struct PlanShowOptions {
  FarmOptions farm;
  std::string what;  // a plan's or a graph's id, or a model file
  bool predicted = false;
  bool on_disk = false;  // the plan that this machine's disk has of the farm's
  std::string numerics{common::kDefaultPolicy};  // of a model's plan
};

Result<FoundPlan> plan_of_model(const PlanShowOptions& options) {
  const std::string& path = options.what;
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(path));
  LFARM_ASSIGN_OR_RETURN(common::FoundDevice device, device_of(options.farm));
  common::PlanKey key = common::plan_key_of(model.graph, device.target, options.numerics);
  std::optional<PulledPlan> found;
  if (options.on_disk) {
    PlanResolver disk({access_of(options.farm), machine_of(options.farm)});
    LFARM_ASSIGN_OR_RETURN(found, disk.look_up_on_disk(key));
  } else if (!options.farm.farm.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto client, connect_to_farm(options.farm));
    key.epoch = client->compiler_epoch();
    LFARM_ASSIGN_OR_RETURN(found, client->pull(key, machine_of(options.farm)));
  } else {
    LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
    LFARM_ASSIGN_OR_RETURN(found, cache->find(key, machine_of(options.farm)));
  }
  if (!found) return not_cached(path);
  return FoundPlan{found->id, std::move(found->plan)};
}

Result<FoundPlan> find_plan(const PlanShowOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(options.what, ignored)) {
    return plan_of_model(options);
  }
  return plan_of_id(options.farm, options.what);
}

int plan_show(const PlanShowOptions& options) {
  auto found = find_plan(options);
  if (!found.ok()) return fail(found.error());
  std::printf("plan %s\n", found->id.hex().c_str());
  std::string text =
      options.predicted ? common::print_predictions(found->plan) : common::print(found->plan);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitDone;
}

}  // namespace

void declare_plan_show(CommandLine* line) {
  auto options = std::make_shared<PlanShowOptions>();
  Command command =
      line->add("plan show",
                "Prints a plan of the cache: its kernels, calls, buffers and where it comes from.",
                [options] { return plan_show(*options); });
  command
      .value("plan", &options->what, "ID|MODEL.pt2",
             "The plan's id or key, the graph's hash, or a\n"
             "beginning of one; or a model")
      .required();
  command.flag("--predicted", &options->predicted,
               "Prints what each call was predicted to take beside what it took");
  command.flag("--on-disk", &options->on_disk,
               "Of a model: the plan of the farm that lies on this machine's disk, whatever the\n"
               "farm has now");
  add_numerics_option(&command, &options->numerics);
  add_device_option(&command, &options->farm);
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
