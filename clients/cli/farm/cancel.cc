// lfarm cancel: stops a farm's job.
#include <cstdio>
#include <memory>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/plan_source.h"
#include "clients/cli/base/report.h"

namespace clients {
namespace {

struct CancelOptions {
  FarmOptions farm;
  uint64_t job = 0;
};

int cancel(const CancelOptions& options) {
  auto client = connect_to_farm(options.farm);
  if (!client.ok()) return fail(client.error());
  common::Status cancelled = (*client)->cancel(options.job);
  if (!cancelled.ok()) return fail(cancelled.error());
  std::printf("job %llu is cancelled\n", static_cast<unsigned long long>(options.job));
  return kExitDone;
}

}  // namespace

void declare_cancel(CommandLine* line) {
  auto options = std::make_shared<CancelOptions>();
  Command command = line->add("cancel", "Stops a job; what it measured stays in the cache.",
                              [options] { return cancel(*options); });
  command.value("job", &options->job, "JOB", "The job's number (see 'lfarm jobs')").required();
  add_farm_options(&command, &options->farm);
}

}  // namespace clients
