// lfarm run: pulls or compiles a model's plan and runs it once.
#include <memory>

#include "clients/cli/case.h"
#include "clients/cli/commands.h"
#include "clients/cli/plan_source.h"
#include "clients/cli/report.h"
#include "clients/runtime/instance.h"
#include "common/base/cat.h"
#include "common/runtime/devices.h"

namespace clients {
namespace {

struct RunOptions {
  FarmOptions farm;
  BudgetOptions budget;
  std::string model;
  std::string inputs;
  std::string outputs;
};

common::Status run_model(const RunOptions& options, Progress* progress) {
  LFARM_ASSIGN_OR_RETURN(Model loaded, load_model(options.model));
  auto model = std::make_shared<const Model>(std::move(loaded));
  // Inputs first: a wrong one should not cost a search.
  LFARM_ASSIGN_OR_RETURN(auto inputs, read_inputs(*model, options.inputs));
  auto fits = check_user_inputs(*model, inputs);
  if (!fits.ok()) {
    return common::Error{fits.error().code,
                         common::cat(options.inputs, ": ", fits.error().message)};
  }
  PlanSource source(options.farm, options.budget, progress, PlanSource::Disk::kUse);
  LFARM_ASSIGN_OR_RETURN(CompiledPlan plan, source.obtain(model->graph, model_name(options.model)));
  progress->clear();
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_device(options.farm.device, default_threads()));
  LFARM_ASSIGN_OR_RETURN(auto instance, make_plan_instance(model, plan.pulled.plan,
                                                           plan.pulled.object_source(), *device));
  LFARM_ASSIGN_OR_RETURN(CallResult result, instance->call(inputs));
  return write_results(*model, result, options.outputs);
}

int run(const RunOptions& options) {
  Progress progress(false);
  common::Status status = run_model(options, &progress);
  progress.clear();
  return exit_code_of(status);
}

}  // namespace

void declare_run(CommandLine* line) {
  auto options = std::make_shared<RunOptions>();
  Command command = line->add(
      "run",
      "Runs a model once: pulls its plan, or compiles it first, and reads and writes NumPy files.\n"
      "Files are numbered by the model's tensors, N.npy from 0; bfloat16 is stored as its bits in\n"
      "uint16. Inputs that the model writes to are saved as OUTPUTS/after/N.npy.",
      [options] { return run(*options); });
  add_model_argument(&command, &options->model);
  command.value("--inputs", &options->inputs, "DIR", "Folder with 0.npy, 1.npy, ...").required();
  command
      .value("--outputs", &options->outputs, "DIR",
             "Folder for 0.npy, 1.npy, ...; made when missing")
      .required();
  add_compile_options(&command, &options->farm, &options->budget);
}

}  // namespace clients
