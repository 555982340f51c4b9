// lfarm print: stops after a stage and prints it as text.
#include <cstdio>

#include "clients/cli/child_stage.h"
#include "clients/cli/commands.h"
#include "clients/cli/plan_source.h"
#include "clients/cli/report.h"
#include "clients/pt2/translate.h"
#include "common/ir/graph_hash.h"
#include "common/ir/roll.h"
#include "common/ir/text.h"
#include "common/wire/ir_codec.h"

namespace clients {
namespace {

using common::Result;

Result<std::string> plan_text(const PrintCommand& command, const common::Graph& graph) {
  Progress progress(true);
  PlanSource source(command.farm, command.budget, &progress);
  LFARM_ASSIGN_OR_RETURN(CompiledPlan plan, source.obtain(graph));
  return common::print(plan.pulled.plan);
}

// Stages that the farm's binaries know print themselves.
Result<std::string> stage_text(const PrintCommand& command) {
  LFARM_ASSIGN_OR_RETURN(Model model, load_model(command.model));
  if (command.stage == "hlir") return common::print(common::roll(model.graph));
  if (command.stage == "plan") return plan_text(command, model.graph);
  common::Bytes graph = common::encode_graph(common::canonical(model.graph));
  if (command.stage != "source") {
    return run_stage({"lfarm-coordinator", "print", "--stage", command.stage, "--numerics",
                      command.budget.numerics},
                     graph);
  }
  LFARM_ASSIGN_OR_RETURN(std::string program,
                         run_stage({"lfarm-coordinator", "print", "--stage", "program",
                                    "--numerics", command.budget.numerics},
                                   graph));
  return run_stage({"lfarm-worker", "print-source"}, common::as_bytes(program));
}

}  // namespace

int print(const PrintCommand& command) {
  auto text = stage_text(command);
  if (!text.ok()) return fail(text.error());
  std::fwrite(text->data(), 1, text->size(), stdout);
  if (!text->empty() && text->back() != '\n') std::fputc('\n', stdout);
  return kExitDone;
}

}  // namespace clients
