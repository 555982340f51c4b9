// lfarm check-worker: how `lfarm check` runs itself, so that a case that crashes takes no other
// along. Runs the cases whose folders come on standard input, one a line, and writes what becomes
// of each to standard output.
#include <cstdio>
#include <iostream>
#include <memory>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/models/case_runner.h"
#include "common/runtime/device/devices.h"

namespace clients {
namespace {

using common::Result;

InstanceMaker reference_maker() {
  return [](const std::shared_ptr<const Model>& model) -> Result<InstanceFactory> {
    return InstanceFactory(
        [model]() -> Result<std::unique_ptr<Instance>> { return make_reference_instance(model); });
  };
}

// `folder`: of the case that is run.
InstanceMaker plan_maker(PlanSource* source, common::Device* device, const std::string& folder) {
  return [source, device,
          &folder](const std::shared_ptr<const Model>& model) -> Result<InstanceFactory> {
    LFARM_ASSIGN_OR_RETURN(CompiledPlan compiled,
                           source->obtain(model->graph, model_name(folder + "/model.pt2")));
    auto plan = std::make_shared<const PulledPlan>(std::move(compiled.pulled));
    return InstanceFactory([model, plan, device] {
      return make_plan_instance(model, plan->plan, plan->object_source(), *device);
    });
  };
}

int check_worker(const CaseOptions& options) {
  Progress progress(true);
  PlanSource source(options.farm, options.budget, &progress);
  std::unique_ptr<common::Device> device;
  if (!options.reference) {
    auto opened = common::open_device(options.farm.device, default_threads());
    if (!opened.ok()) return fail(opened.error());
    device = std::move(opened).value();
  }
  std::string folder;
  InstanceMaker maker =
      options.reference ? reference_maker() : plan_maker(&source, device.get(), folder);
  while (std::getline(std::cin, folder)) {
    std::string line = encode_case_result(run_case(folder, maker, options.measure));
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  }
  return kExitDone;
}

}  // namespace

void declare_check_worker(CommandLine* line) {
  auto options = std::make_shared<CaseOptions>();
  Command command = line->add("check-worker", "Runs the cases named on standard input",
                              [options] { return check_worker(*options); });
  command.hide();
  command.flag("--reference", &options->reference, "");
  command.flag("--measure", &options->measure, "");
  add_compile_options(&command, &options->farm, &options->budget);
}

}  // namespace clients
