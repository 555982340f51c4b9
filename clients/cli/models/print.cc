// lfarm print: stops after a stage and prints it as text.
#include <cstdio>
#include <memory>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/base/child_stage.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/pt2/signature.h"
#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/roll/roll.h"
#include "common/wire/ir_codec.h"

namespace clients {
namespace {

using common::Result;

struct PrintOptions {
  FarmOptions farm;
  BudgetOptions budget;
  std::string stage;
  bool is_all = false;  // stages
  std::string model;
};

Result<std::string> plan_text(const PrintOptions& options, const common::Graph& graph) {
  Progress progress(true);
  PlanSource source(options.farm, options.budget, &progress);
  LFARM_ASSIGN_OR_RETURN(CompiledPlan plan, source.obtain(graph));
  return common::cat("plan ", plan.pulled.id.hex(), "\n", common::print(plan.pulled.plan));
}

// What the farm's own binaries make of the graph, for the target that the options name.
class FarmStages {
 public:
  static Result<FarmStages> open(const PrintOptions& options, const common::Graph& graph) {
    LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options.farm));
    return FarmStages(std::move(target.name), options.budget.policy.numerics,
                      common::encode_graph(common::canonical(graph)));
  }

  Result<std::string> of_coordinator(const std::string& stage) const {
    return run_stage({"lfarm-coordinator", "print", "--stage", stage, "--target", target_,
                      "--numerics", numerics_},
                     graph_);
  }
  Result<std::string> source() const {
    LFARM_ASSIGN_OR_RETURN(std::string program, of_coordinator("encoded"));
    return run_stage({"lfarm-worker", "print-source", target_}, common::as_bytes(program));
  }

 private:
  FarmStages(std::string target, std::string numerics, common::Bytes graph)
      : target_(std::move(target)), numerics_(std::move(numerics)), graph_(std::move(graph)) {}
  std::string target_, numerics_;
  common::Bytes graph_;
};

std::string hlir_text(const Model& model) { return common::print(common::roll(model.graph)); }

// From the translated graph to source, one after the other.
Result<std::string> all_stages(const PrintOptions& options) {
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(options.model));
  LFARM_ASSIGN_OR_RETURN(FarmStages farm, FarmStages::open(options, model.graph));
  LFARM_ASSIGN_OR_RETURN(std::string searched, farm.of_coordinator("all"));
  LFARM_ASSIGN_OR_RETURN(std::string source, farm.source());
  return common::cat("=== hlir: the translated graph\n", hlir_text(model), searched,
                     "=== source: the program's kernels as code\n", source);
}

Result<std::string> stage_text(const PrintOptions& options) {
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(options.model));
  if (options.stage == "hlir") return hlir_text(model);
  if (options.stage == "signature") return signature_text(model, common::graph_hash(model.graph));
  if (options.stage == "plan") return plan_text(options, model.graph);
  LFARM_ASSIGN_OR_RETURN(FarmStages farm, FarmStages::open(options, model.graph));
  return options.stage == "source" ? farm.source() : farm.of_coordinator(options.stage);
}

int print(const PrintOptions& options) {
  if (options.stage.empty() != options.is_all) {
    return fail(common::invalid_input("lfarm print takes --stage NAME or --stages"));
  }
  auto text = options.is_all ? all_stages(options) : stage_text(options);
  if (!text.ok()) return fail(text.error());
  std::fwrite(text->data(), 1, text->size(), stdout);
  if (!text->empty() && text->back() != '\n') std::fputc('\n', stdout);
  return kExitDone;
}

}  // namespace

void declare_print(CommandLine* line) {
  auto options = std::make_shared<PrintOptions>();
  Command command = line->add("print", "Stops after a stage of compiling and prints it.",
                              [options] { return print(*options); });
  add_model_argument(&command, &options->model);
  command
      .value(
          "--stage", &options->stage, "STAGE",
          "hlir: the translated graph. layouts: with its images' axes in the target's order.\n"
          "roll: with repeated layers as loops. regions: cut at the loops. egraph: after "
          "rewriting.\n"
          "candidates: programs that a search starts from. program: the whole graph's kernels and\n"
          "calls before anything is measured. nests: how its kernels loop. source: generated "
          "code.\n"
          "plan: the finished plan, compiled if need be. signature: names of weights, inputs and\n"
          "outputs, for clients that have the plan and not the model")
      .one_of({"hlir", "layouts", "roll", "regions", "egraph", "candidates", "program", "nests",
               "source", "plan", "signature"});
  command.flag("--stages", &options->is_all, "All stages from hlir to source, in order");
  add_compile_options(&command, &options->farm, &options->budget);
  add_target_option(&command, &options->farm);
}

}  // namespace clients
