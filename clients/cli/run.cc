// lfarm run: pulls or compiles a model's plan and runs it once.
#include "clients/cli/case.h"
#include "clients/cli/commands.h"
#include "clients/cli/plan_source.h"
#include "clients/cli/report.h"
#include "clients/runtime/instance.h"
#include "common/base/cat.h"
#include "common/runtime/cpu_device.h"

namespace clients {
namespace {

common::Status run_model(const RunCommand& command, Progress* progress) {
  LFARM_ASSIGN_OR_RETURN(Model loaded, load_model(command.model));
  auto model = std::make_shared<const Model>(std::move(loaded));
  // Inputs first: a wrong one should not cost a search.
  LFARM_ASSIGN_OR_RETURN(auto inputs, read_inputs(*model, command.inputs));
  auto fits = check_user_inputs(*model, inputs);
  if (!fits.ok()) {
    return common::Error{fits.error().code,
                         common::cat(command.inputs, ": ", fits.error().message)};
  }
  PlanSource source(command.farm, command.budget, progress);
  LFARM_ASSIGN_OR_RETURN(CompiledPlan plan, source.obtain(model->graph));
  progress->clear();
  auto device = common::make_cpu_device({.threads = default_threads()});
  LFARM_ASSIGN_OR_RETURN(auto instance, make_plan_instance(model, plan.pulled.plan,
                                                           plan.pulled.object_source(), *device));
  LFARM_ASSIGN_OR_RETURN(CallResult result, instance->call(inputs));
  return write_results(*model, result, command.outputs);
}

}  // namespace

int run(const RunCommand& command) {
  Progress progress(false);
  common::Status status = run_model(command, &progress);
  progress.clear();
  return status.ok() ? kExitDone : fail(status.error());
}

}  // namespace clients
