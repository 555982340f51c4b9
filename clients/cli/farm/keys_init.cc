// lfarm keys init: makes all keys of a farm before it runs.
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_keys.h"
#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/runtime/farm/farm_access.h"
#include "common/base/signing.h"

namespace clients {
namespace {

struct InitOptions {
  FarmOptions farm;
  int64_t workers = 0;
};

common::Status prepare(const StateDirectory& state, int64_t workers) {
  LFARM_ASSIGN_OR_RETURN(std::string farm, prepare_farm_keys(state));
  LFARM_ASSIGN_OR_RETURN(common::SigningKey signing,
                         common::load_or_create_signing_key(state.signing_key()));
  if (workers > 0) LFARM_RETURN_IF_ERROR(prepare_worker_keys(state, workers));
  std::printf("farm key %s\nsigning key %s\n", farm.c_str(),
              common::to_hex(signing.public_key()).c_str());
  return {};
}

}  // namespace

void declare_keys_init(CommandLine* line) {
  auto options = std::make_shared<InitOptions>();
  Command command = line->add(
      "keys init",
      "Makes the keys of a farm that is to run elsewhere, in the state directory: farm.key and\n"
      "signing.key for its coordinator, worker.key for its workers, client_keys for you as its\n"
      "administrator, and the allow-list that lets the latter two in. What is there stays.",
      [options] { return exit_code_of(prepare({options->farm.state}, options->workers)); });
  command
      .value("--workers", &options->workers, "N",
             "Also keys for N workers elsewhere, in workers/0.key and on: the loss of one worker\n"
             "is the loss of its key alone")
      .in_range(int64_t{0}, int64_t{1024});
  add_state_option(&command, &options->farm);
}

}  // namespace clients
