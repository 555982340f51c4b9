// lfarm keys revoke: shuts a key out.
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_keys.h"
#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"

namespace clients {
namespace {

struct RevokeOptions {
  FarmOptions farm;
  std::string allow;
  std::string key;
};

common::Status revoke(const RevokeOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::string key, find_public_key(options.key));
  LFARM_RETURN_IF_ERROR(AllowFile(allow_path(options.farm, options.allow)).revoke(key));
  std::printf("%s is shut out\n", key.c_str());
  return {};
}

}  // namespace

void declare_keys_revoke(CommandLine* line) {
  auto options = std::make_shared<RevokeOptions>();
  Command command = line->add(
      "keys revoke",
      "Shuts a key out of the farm. A farm that runs drops its connections within a second; what\n"
      "a worker of that key held goes to others.",
      [options] { return exit_code_of(revoke(*options)); });
  command.value("key", &options->key, "KEY", "A public key, or the file of its pair").required();
  add_allow_option(&command, &options->allow);
  add_state_option(&command, &options->farm);
}

}  // namespace clients
