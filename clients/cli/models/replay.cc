// lfarm replay: runs a finished job's search again.
#include <memory>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/signals.h"
#include "common/base/cat.h"
#include "common/process/subprocess.h"

namespace clients {
namespace {

using common::cat;

struct ReplayOptions {
  FarmOptions farm;  // only the state directory counts
  uint64_t job = 0;
  bool json = false;
};

// The coordinator's binary has the search.
int replay(const ReplayOptions& options) {
  common::SpawnOptions spawn;
  spawn.arguments = {cat(common::executable_directory(), "/lfarm-coordinator"), "replay", "--state",
                     options.farm.state, cat(options.job)};
  if (options.json) spawn.arguments.emplace_back("--json");
  auto child = common::Subprocess::start(spawn);
  if (!child.ok()) return fail(child.error());
  constexpr int kPollMs = 100;
  while (true) {
    if (auto status = child->wait(kPollMs)) return status->signal != 0 ? 1 : status->code;
    common::Status stop = check_stop();
    if (!stop.ok()) return fail(stop.error());
  }
}

}  // namespace

void declare_replay(CommandLine* line) {
  auto options = std::make_shared<ReplayOptions>();
  Command command = line->add("replay",
                              "Runs the search of a finished job again from its journal and prints "
                              "every decision. Exits 5\n"
                              "when the search comes to another plan than the job did.",
                              [options] { return replay(*options); });
  command
      .value("job", &options->job, "JOB",
             "The job's number; the latest 32 that gave a plan are kept")
      .required();
  command.flag("--json", &options->json, "Print one JSON object a line");
  add_state_option(&command, &options->farm);
}

}  // namespace clients
