// lfarm: compiles PyTorch models on a farm and runs what it finds. commands.h lists its commands.
//
// The way of a model: load_model (clients/pt2) -> graph_hash (common/ir) -> PlanSource: the cache,
// a running farm or one of our own (plan_source.h) -> make_plan_instance (clients/runtime) ->
// outputs.
#include "clients/cli/base/signals.h"
#include "clients/cli/parse.h"
#include "common/base/log.h"

int main(int argc, char** argv) {
  clients::ParsedCommandLine parsed = clients::parse_command_line(argc, argv);
  if (!parsed.run) return parsed.exit_code;
  common::log_init("lfarm", common::LogLevel::kWarning);
  // After this line Ctrl-C and SIGTERM end waits in good order.
  clients::watch_signals();
  return parsed.run();
}
