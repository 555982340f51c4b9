// lfarm run: pulls or compiles a model's plan and runs it once.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/models/case.h"
#include "clients/runtime/model/instance.h"
#include "clients/runtime/model/random_state.h"
#include "common/base/cat.h"
#include "common/runtime/device/devices.h"

namespace clients {
namespace {

struct RunOptions {
  FarmOptions farm;
  BudgetOptions budget;
  std::string model;
  std::string inputs;
  std::string outputs;
  uint64_t seed = 0;
};

// How long a run that is done waits for the farm to say whether it has a better plan.
constexpr std::chrono::milliseconds kNewerWait{1000};

// Looks for a better plan than the one from the disk while that one runs.
class NewerPlan {
 public:
  NewerPlan(PlanSource& source, const PulledPlan& plan)
      : looking_(std::async(std::launch::async, [this, &source, &plan] {
          return source.find_newer(plan, [this]() -> common::Status {
            if (is_over_) return common::unavailable("the run is over");
            return {};
          });
        })) {}
  ~NewerPlan() { is_over_ = true; }
  NewerPlan(const NewerPlan&) = delete;
  NewerPlan& operator=(const NewerPlan&) = delete;

  void say() {
    if (looking_.wait_for(kNewerWait) != std::future_status::ready) return;
    auto newer = looking_.get();
    // A farm that is away costs nothing but the news.
    if (!newer.ok() || !*newer) return;
    std::fprintf(stderr, "lfarm: newer at the farm, and run from now on: %s\n",
                 describe(**newer).c_str());
  }

 private:
  std::atomic<bool> is_over_{false};
  std::future<common::Result<std::optional<PulledPlan>>> looking_;
};

// Which of the files that write_results() numbers are gradients, and of what.
void say_gradients(const Model& model) {
  int file = 0;
  for (const UserOutput& output : model.user_outputs) {
    if (output.graph_output < 0) continue;
    if (!output.gradient_of.empty()) {
      std::fprintf(stderr, "lfarm: %d.npy is the gradient to '%s'\n", file,
                   output.gradient_of.c_str());
    }
    ++file;
  }
}

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
  std::optional<int> state;
  if (options.seed != 0) {
    LFARM_ASSIGN_OR_RETURN(state, random_state_of(*model));
  }
  PlanSource source(options.farm, options.budget, progress, PlanSource::Disk::kUse);
  LFARM_ASSIGN_OR_RETURN(CompiledPlan plan, source.obtain(model->graph, model_name(options.model)));
  progress->clear();
  std::fprintf(stderr, "lfarm: runs %s\n", describe(plan.pulled).c_str());
  std::optional<NewerPlan> newer;
  if (plan.is_from_disk) newer.emplace(source, plan.pulled);
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_device(options.farm.device, default_threads()));
  LFARM_ASSIGN_OR_RETURN(auto instance, make_plan_instance(model, plan.pulled.plan,
                                                           plan.pulled.object_source(), *device));
  if (state) {
    LFARM_ASSIGN_OR_RETURN(common::HostTensor content, random_state_from(options.seed));
    LFARM_RETURN_IF_ERROR(instance->set_state(*state, content));
  }
  LFARM_ASSIGN_OR_RETURN(CallResult result, instance->call(inputs));
  LFARM_RETURN_IF_ERROR(write_results(*model, result, options.outputs));
  say_gradients(*model);
  if (newer) newer->say();
  return {};
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
      "uint16. Inputs that the model writes to are saved as OUTPUTS/after/N.npy. Of a training "
      "graph\n"
      "the gradients follow the loss; the run says what each of them is the gradient to.",
      [options] { return run(*options); });
  add_model_argument(&command, &options->model);
  command.value("--inputs", &options->inputs, "DIR", "Folder with 0.npy, 1.npy, ...").required();
  command
      .value("--outputs", &options->outputs, "DIR",
             "Folder for 0.npy, 1.npy, ...; made when missing")
      .required();
  command.value("--seed", &options->seed, "K",
                "Seed of the random numbers that the model draws (default: 0)");
  add_compile_options(&command, &options->farm, &options->budget, "--search-seed");
}

}  // namespace clients
