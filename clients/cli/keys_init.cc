// lfarm keys init: makes all keys of a farm before it runs.
#include <cstdio>
#include <memory>

#include "clients/cli/commands.h"
#include "clients/cli/farm_keys.h"
#include "clients/cli/farm_options.h"
#include "clients/cli/report.h"
#include "clients/runtime/farm_access.h"
#include "common/base/signing.h"

namespace clients {
namespace {

common::Status prepare(const StateDirectory& state) {
  LFARM_ASSIGN_OR_RETURN(std::string farm, prepare_farm_keys(state));
  LFARM_ASSIGN_OR_RETURN(common::SigningKey signing,
                         common::load_or_create_signing_key(state.signing_key()));
  std::printf("farm key %s\nsigning key %s\n", farm.c_str(),
              common::to_hex(signing.public_key()).c_str());
  return {};
}

}  // namespace

void declare_keys_init(CommandLine* line) {
  auto options = std::make_shared<FarmOptions>();
  Command command = line->add(
      "keys init",
      "Makes the keys of a farm that is to run elsewhere, in the state directory: farm.key and\n"
      "signing.key for its coordinator, worker.key for its workers, client_keys for you as its\n"
      "administrator, and the allow-list that lets the latter two in. What is there stays.",
      [options] { return exit_code_of(prepare({options->state})); });
  add_state_option(&command, options.get());
}

}  // namespace clients
