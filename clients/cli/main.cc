// lfarm: compiles PyTorch models on a farm and runs what it finds.
//
// The way of a model: load_model (clients/pt2) -> graph_hash (common/ir) -> PlanSource: the cache,
// a running farm or one of our own (plan_source.h) -> make_plan_instance (clients/runtime) ->
// outputs.
#include <type_traits>

#include "clients/cli/command_line.h"
#include "clients/cli/commands.h"
#include "clients/cli/signals.h"
#include "common/base/log.h"

namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

int dispatch(const clients::Command& command) {
  return std::visit(Overloaded{
                        // Run a farm on this machine, and see how farms are.
                        [](const clients::UpCommand& c) { return clients::up(c); },
                        [](const clients::StatusCommand& c) { return clients::status(c); },
                        [](const clients::CancelCommand& c) { return clients::cancel(c); },
                        [](const clients::ReplayCommand& c) { return clients::replay(c); },
                        // Find a model's plan, run it, compare it with PyTorch.
                        [](const clients::SubmitCommand& c) { return clients::submit(c); },
                        [](const clients::RunCommand& c) { return clients::run(c); },
                        [](const clients::CheckCommand& c) { return clients::check(c); },
                        // Look inside.
                        [](const clients::PrintCommand& c) { return clients::print(c); },
                        [](const clients::PlanShowCommand& c) { return clients::plan_show(c); },
                        [](const clients::CacheCommand& c) { return clients::cache_command(c); },
                    },
                    command);
}

}  // namespace

int main(int argc, char** argv) {
  clients::ParsedCommandLine parsed = clients::parse_command_line(argc, argv);
  if (!parsed.command) return parsed.exit_code;
  common::log_init("lfarm", common::LogLevel::kWarning);
  // After this line Ctrl-C and SIGTERM end waits in good order.
  clients::watch_signals();
  return dispatch(*parsed.command);
}
