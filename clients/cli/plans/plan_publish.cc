// lfarm plan publish: lets other tenants of the farm have a plan.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/find_plan.h"
#include "clients/pt2/translate.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Result;

struct PublishOptions {
  FarmOptions farm;
  std::string what;
  std::vector<std::string> tenants;
  bool withdraw = false;
  common::PlanPolicy policy;
};

Result<common::Digest> key_of(const PublishOptions& options, FarmClient& farm) {
  std::error_code ignored;
  if (!std::filesystem::exists(options.what, ignored)) {
    if (auto whole = common::Digest::parse(options.what)) return *whole;
    LFARM_ASSIGN_OR_RETURN(FarmPlan found, plan_at_farm(farm, options.what));
    return found.key;
  }
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(options.what));
  LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options.farm));
  common::PlanKey key = common::plan_key_of(model.graph, target, options.policy.text());
  key.epoch = farm.compiler_epoch();
  return key.digest();
}

common::Status publish(const PublishOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto farm, connect_to_farm(options.farm));
  LFARM_ASSIGN_OR_RETURN(common::Digest key, key_of(options, *farm));
  LFARM_ASSIGN_OR_RETURN(auto plans, farm->publish({0, key, options.tenants, options.withdraw}));
  const char* what = options.withdraw ? "is published no more" : "is published";
  for (const common::Digest& plan : plans) std::printf("plan %s %s\n", plan.hex().c_str(), what);
  return {};
}

}  // namespace

void declare_plan_publish(CommandLine* line) {
  auto options = std::make_shared<PublishOptions>();
  Command command = line->add(
      "plan publish",
      "Lets other tenants of the farm have a plan of this client's tenant when they submit the\n"
      "same graph. They see the machine code and its times, and neither the model nor whose it "
      "is.\n"
      "Takes the role publish.",
      [options] { return exit_code_of(publish(*options)); });
  command
      .value("plan", &options->what, "KEY|MODEL.pt2",
             "The plan's key, its id or the graph's, or a\n"
             "beginning of one; or the model")
      .required();
  command.value("--to", &options->tenants, "TENANT", "To this tenant only; may be repeated");
  command.flag("--withdraw", &options->withdraw,
               "Publishes it no more; tenants that have it keep it");
  add_policy_options(&command, &options->policy);
  add_device_option(&command, &options->farm);
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
