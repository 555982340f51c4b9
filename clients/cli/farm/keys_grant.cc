// lfarm keys grant: lets a key in.
#include <cstdio>
#include <memory>

#include "clients/cli/access/farm_keys.h"
#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
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
  int64_t quota_s = -1;  // as it is
  std::string share;     // empty: as it is
};

// The tenant's policy with what the options say of it.
common::Status set_policy(const GrantOptions& options, const AllowFile& file) {
  if (options.quota_s < 0 && options.share.empty()) return {};
  LFARM_ASSIGN_OR_RETURN(common::AllowList list, file.read());
  auto known = list.policies().find(options.tenant);
  common::TenantPolicy policy =
      known == list.policies().end() ? common::TenantPolicy{} : known->second;
  if (options.quota_s >= 0) policy.quota_s = options.quota_s;
  if (!options.share.empty()) {
    auto share = common::parse_policy(cat("share=", options.share));
    if (!share) {
      return common::invalid_input(
          cat("'", options.share, "' is not private, farm or tenants' names with commas"));
    }
    policy.sharing = share->sharing;
    policy.with = share->with;
  }
  return file.set_policy(options.tenant, policy);
}

common::Status grant(const GrantOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::string key, find_public_key(options.key));
  if (!common::is_tenant_name(options.tenant)) {
    return common::invalid_input(
        cat("'", options.tenant, "' is no tenant's name: printable ASCII without spaces"));
  }
  auto roles = common::parse_roles(options.roles);
  if (!roles) {
    return common::invalid_input(
        cat("'", options.roles, "' are no roles: some of submit,read,worker,admin,publish"));
  }
  std::string path = allow_path(options.farm, options.allow);
  AllowFile file(path);
  LFARM_RETURN_IF_ERROR(set_policy(options, file));
  LFARM_RETURN_IF_ERROR(file.grant(key, {options.tenant, *roles}));
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
      "them, see the farm's status), worker, admin (all tenants' jobs, revocations, imports),\n"
      "publish (let other tenants have plans). What the key had before is replaced. A farm that\n"
      "runs takes it up within a second.",
      [options] { return exit_code_of(grant(*options)); });
  command.value("key", &options->key, "KEY", "A public key, or the file of its pair").required();
  command.value("tenant", &options->tenant, "TENANT", "Whose jobs and plans they are").required();
  command.value("roles", &options->roles, "ROLE,ROLE", "submit, read, worker, admin, publish")
      .required();
  command
      .value(
          "--quota", &options->quota_s, "SECONDS",
          "Worker-seconds that the tenant may use in any 24 hours; 0: no bound (default: as it is)")
      .in_range(int64_t{0}, int64_t{1} << 40);
  command.value("--share", &options->share, "private|farm|TENANT,TENANT",
                "Who else gets the tenant's plans when they submit the same graph (default: as it\n"
                "is, at first private)");
  add_allow_option(&command, &options->allow);
  add_state_option(&command, &options->farm);
}

}  // namespace clients
