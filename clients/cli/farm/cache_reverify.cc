// lfarm cache reverify: has a farm make the plans of earlier compilers anew.
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"

namespace clients {
namespace {

common::Status reverify(const FarmOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto farm, connect_to_farm(options));
  LFARM_ASSIGN_OR_RETURN(auto plans, farm->reverify());
  for (const common::Digest& plan : plans) {
    std::printf("plan %s is being made anew\n", plan.hex().c_str());
  }
  if (plans.empty()) std::printf("no plan is of an earlier compiler\n");
  return {};
}

}  // namespace

void declare_cache_reverify(CommandLine* line) {
  auto options = std::make_shared<FarmOptions>();
  Command command = line->add(
      "cache reverify",
      "Has the farm build the winners of other compiler epochs and toolchains with the ones of\n"
      "today, verify and measure them, and keep them as plans of today. One candidate each; no\n"
      "search. 'lfarm jobs' shows how far it is.",
      [options] { return exit_code_of(reverify(*options)); });
  add_farm_options(&command, options.get());
}

}  // namespace clients
