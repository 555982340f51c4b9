// lfarm cache restore: puts a copy of a store back.
#include <cstdio>
#include <memory>

#include "cache/store/backup.h"
#include "clients/cli/access/farm_options.h"
#include "clients/cli/access/plan_cache.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/runtime/farm/state_directory.h"

namespace clients {
namespace {

struct RestoreOptions {
  FarmOptions farm;  // only the state directory counts
  std::string backup;
};

common::Status restore(const RestoreOptions& options) {
  StateDirectory state{options.farm.state};
  LFARM_ASSIGN_OR_RETURN(cache::RestoreReport report,
                         cache::restore_store(options.backup, state.store(), writer_options()));
  std::printf("%llu plans are back; %llu that were revoked since stay revoked\n",
              static_cast<unsigned long long>(report.plans),
              static_cast<unsigned long long>(report.revocations));
  if (!report.replaced.empty()) {
    std::printf("the store that was there is kept in %s\n", report.replaced.c_str());
  }
  return {};
}

}  // namespace

void declare_cache_restore(CommandLine* line) {
  auto options = std::make_shared<RestoreOptions>();
  Command command = line->add(
      "cache restore",
      "Puts a copy of a store (lfarm-coordinator --backup) in the place of the one in the state\n"
      "directory, which is kept beside. What was revoked since the copy was made stays revoked.\n"
      "Keys are not touched. No farm may run on the state directory.",
      [options] { return exit_code_of(restore(*options)); });
  command.value("backup", &options->backup, "DIR", "The copy").required();
  add_state_option(&command, &options->farm);
}

}  // namespace clients
