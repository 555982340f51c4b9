// lfarm keys grant: lets a key in.
#include <cstdio>
#include <memory>

#include "clients/cli/commands.h"
#include "clients/cli/farm_keys.h"
#include "clients/cli/farm_options.h"
#include "clients/cli/report.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;

struct GrantOptions {
  FarmOptions farm;
  std::string allow;
  std::string key;
  std::string tenant;
  std::string roles;
};

common::Status grant(const GrantOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::string key, find_public_key(options.key));
  if (!common::is_tenant_name(options.tenant)) {
    return common::invalid_input(
        cat("'", options.tenant, "' is no tenant's name: printable ASCII without spaces"));
  }
  auto roles = common::parse_roles(options.roles);
  if (!roles) {
    return common::invalid_input(
        cat("'", options.roles, "' are no roles: some of submit,read,worker,admin"));
  }
  std::string path = allow_path(options.farm, options.allow);
  LFARM_RETURN_IF_ERROR(AllowFile(path).grant(key, {options.tenant, *roles}));
  std::printf("%s is %s with %s\n", key.c_str(), options.tenant.c_str(),
              common::roles_text(*roles).c_str());
  return {};
}

}  // namespace

void declare_keys_grant(CommandLine* line) {
  auto options = std::make_shared<GrantOptions>();
  Command command = line->add(
      "keys grant",
      "Lets a key into the farm, as a tenant with roles: submit (search for plans), read (pull\n"
      "them, see the farm's status), worker, admin (all tenants' jobs, revocations). What the key\n"
      "had before is replaced. A farm that runs takes it up within a second.",
      [options] { return exit_code_of(grant(*options)); });
  command.value("key", &options->key, "KEY", "A public key, or the file of its pair").required();
  command.value("tenant", &options->tenant, "TENANT", "Whose jobs and plans they are").required();
  command.value("roles", &options->roles, "ROLE,ROLE", "submit, read, worker, admin").required();
  add_allow_option(&command, &options->allow);
  add_state_option(&command, &options->farm);
}

}  // namespace clients
