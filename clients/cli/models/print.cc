// lfarm print: stops after a stage and prints it as text.
#include <cstdio>
#include <memory>

#include "clients/cli/base/child_stage.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/plan_source.h"
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
  std::string model;
};

Result<std::string> plan_text(const PrintOptions& options, const common::Graph& graph) {
  Progress progress(true);
  PlanSource source(options.farm, options.budget, &progress);
  LFARM_ASSIGN_OR_RETURN(CompiledPlan plan, source.obtain(graph));
  return common::cat("plan ", plan.pulled.id.hex(), "\n", common::print(plan.pulled.plan));
}

// Stages that the farm's binaries know print themselves.
Result<std::string> stage_text(const PrintOptions& options) {
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(options.model));
  if (options.stage == "hlir") return common::print(common::roll(model.graph));
  if (options.stage == "signature") return signature_text(model, common::graph_hash(model.graph));
  if (options.stage == "plan") return plan_text(options, model.graph);
  common::Bytes graph = common::encode_graph(common::canonical(model.graph));
  LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options.farm));
  auto searched = [&](const std::string& stage) {
    return run_stage({"lfarm-coordinator", "print", "--stage", stage, "--target", target.name,
                      "--numerics", options.budget.numerics},
                     graph);
  };
  if (options.stage != "source") return searched(options.stage);
  LFARM_ASSIGN_OR_RETURN(std::string program, searched("program"));
  return run_stage({"lfarm-worker", "print-source", target.name}, common::as_bytes(program));
}

int print(const PrintOptions& options) {
  auto text = stage_text(options);
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
          "--stage", &options->stage, "hlir|egraph|candidates|source|plan|signature",
          "hlir: the graph, repeated blocks rolled into loops. egraph: after rewriting.\n"
          "candidates: programs that a search starts from. source: generated code.\n"
          "plan: the finished plan, compiled if need be. signature: names of weights, inputs and\n"
          "outputs, for clients that have the plan and not the model")
      .required()
      .one_of({"hlir", "egraph", "candidates", "source", "plan", "signature"});
  add_compile_options(&command, &options->farm, &options->budget);
  add_target_option(&command, &options->farm);
}

}  // namespace clients
