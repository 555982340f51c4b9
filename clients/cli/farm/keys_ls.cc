// lfarm keys ls: a farm's own public keys, and who may reach it.

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/access/farm_keys.h"
#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/table.h"
#include "clients/runtime/farm/farm_access.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

struct ListOptions {
  FarmOptions farm;
  std::string allow;
  bool json = false;
};

std::string sharing_text(const common::TenantPolicy& policy) {
  if (policy.sharing == common::Sharing::kPrivate) return "nobody";
  if (policy.sharing == common::Sharing::kFarm) return "all tenants";
  std::string text;
  for (const std::string& tenant : policy.with) text += cat(text.empty() ? "" : ", ", tenant);
  return text;
}

common::Status list_keys(const ListOptions& options) {
  StateDirectory state{options.farm.state};
  LFARM_ASSIGN_OR_RETURN(common::AllowList list,
                         AllowFile(allow_path(options.farm, options.allow)).read());
  Json json;
  Table own({});
  if (common::file_exists(state.farm_key())) {
    LFARM_ASSIGN_OR_RETURN(common::KeyPair farm, common::load_key_pair(state.farm_key()));
    json["farm_key"] = farm.public_key;
    own.row({"farm", farm.public_key, "for --farm-key"});
  }
  if (common::file_exists(state.signing_key()) || common::file_exists(state.signing_public())) {
    LFARM_ASSIGN_OR_RETURN(common::PublicKey signer, own_signing_key(state));
    json["signing_key"] = common::to_hex(signer);
    own.row({"signs with", common::to_hex(signer), "for --trust"});
  }
  json["keys"] = Json::array();
  Table table({"key", "tenant", "roles"});
  for (const auto& [key, principal] : list.entries()) {
    std::string roles = common::roles_text(principal->roles);
    json["keys"].push_back({{"key", key}, {"tenant", principal->tenant}, {"roles", roles}});
    table.row({key, principal->tenant, roles});
  }
  json["tenants"] = Json::array();
  Table tenants({"tenant", "quota", "shares with"});
  for (const auto& [tenant, policy] : list.policies()) {
    json["tenants"].push_back(
        {{"tenant", tenant}, {"quota_s", policy.quota_s}, {"policy", common::policy_text(policy)}});
    tenants.row({tenant, policy.quota_s == 0 ? "none" : cat(policy.quota_s, " s in 24 h"),
                 sharing_text(policy)});
  }
  if (options.json) {
    std::printf("%s\n", json.dump().c_str());
    return {};
  }
  own.print();
  table.print();
  if (!list.policies().empty()) tenants.print();
  if (list.size() == 0) std::printf("no keys may reach the farm; see 'lfarm keys grant'\n");
  return {};
}

}  // namespace

void declare_keys_ls(CommandLine* line) {
  auto options = std::make_shared<ListOptions>();
  Command command =
      line->add("keys ls", "Lists a farm's own public keys and the keys that may reach it.",
                [options] { return exit_code_of(list_keys(*options)); });
  command.flag("--json", &options->json, "Print JSON");
  add_allow_option(&command, &options->allow);
  add_state_option(&command, &options->farm);
}

}  // namespace clients
