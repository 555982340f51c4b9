// lfarm plan show: a plan of the cache, through a farm or straight from the store's files.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/find_plan.h"
#include "clients/pt2/translate.h"
#include "clients/runtime/farm/plan_resolver.h"
#include "common/base/cat.h"
#include "common/plan/kernel_origins.h"
#include "common/runtime/whole_run.h"

namespace clients {
namespace {

using common::cat;
using common::Result;

struct PlanShowOptions {
  FarmOptions farm;
  std::string what;  // a plan's or a graph's id, or a model file
  bool predicted = false;
  bool on_disk = false;       // the plan that this machine's disk has of the farm's
  common::PlanPolicy policy;  // of a model's plan
};

struct ShownPlan {
  FoundPlan found;
  std::vector<common::KernelOrigin> origins;  // none where the model is not known
};

Result<ShownPlan> plan_of_model(const PlanShowOptions& options) {
  const std::string& path = options.what;
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(path));
  LFARM_ASSIGN_OR_RETURN(common::FoundDevice device, device_of(options.farm));
  common::PlanKey key = common::plan_key_of(model.graph, device.target, options.policy.text());
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
  LFARM_RETURN_IF_ERROR(common::plan_fits(found->plan, model.graph));
  auto origins = common::kernel_origins(found->plan, model.graph.inputs);
  return ShownPlan{{found->id, std::move(found->plan)}, std::move(origins)};
}

Result<ShownPlan> find_plan(const PlanShowOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(options.what, ignored)) {
    return plan_of_model(options);
  }
  LFARM_ASSIGN_OR_RETURN(FoundPlan found, plan_of_id(options.farm, options.what));
  return ShownPlan{std::move(found), {}};
}

int plan_show(const PlanShowOptions& options) {
  auto shown = find_plan(options);
  if (!shown.ok()) return fail(shown.error());
  const FoundPlan& found = shown->found;
  std::printf("plan %s\n", found.id.hex().c_str());
  std::string text =
      options.predicted ? common::print_predictions(found.plan) : common::print(found.plan);
  for (size_t k = 0; k < shown->origins.size(); ++k) {
    const common::KernelOrigin& origin = shown->origins[k];
    if (origin.modules.empty()) continue;
    text += cat("kernel ", k, " reads weights of ", origin.modules,
                origin.sources.empty() ? "" : " at ", origin.sources, "\n");
  }
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
      .required()
      .stands_for(model_file);
  command.flag("--predicted", &options->predicted,
               "Prints what each call was predicted to take beside what it took");
  command.flag("--on-disk", &options->on_disk,
               "Of a model: the plan of the farm that lies on this machine's disk, whatever the\n"
               "farm has now");
  add_policy_options(&command, &options->policy);
  add_device_option(&command, &options->farm);
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
