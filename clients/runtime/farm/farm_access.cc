#include "clients/runtime/farm/farm_access.h"

#include "clients/runtime/farm/known_farms.h"
#include "clients/runtime/farm/revocations.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {

using common::cat;
using common::Result;

namespace {

// The key of plans that the farm at the endpoint may give: the one that the user names, or the
// state directory's own, which nobody else can sign with, or the one of the first meeting.
Result<common::PublicKey> trusted_key(const FarmAccess& access, const std::string& endpoint,
                                      const common::PublicKey& offered) {
  if (!access.trust.empty()) return parse_signing_key(access.trust, "the key to trust (--trust)");
  auto own = own_signing_key(access.state);
  if (own.ok() && *own == offered) return offered;
  LFARM_RETURN_IF_ERROR(KnownFarms(access.state.known_farms()).meet(endpoint, offered));
  return offered;
}

common::Status check_endpoint(const std::string& endpoint) {
  if (endpoint.find("://") != std::string::npos) return {};
  return common::invalid_input(
      cat("the endpoint '", endpoint, "' names no transport; write tcp://", endpoint, " (--farm)"));
}

}  // namespace

std::string running_farm(const StateDirectory& state) {
  return FarmLock::holder(state) ? read_endpoint(state.endpoint_file()) : "";
}

Result<common::PublicKey> own_signing_key(const StateDirectory& state) {
  if (common::file_exists(state.signing_public())) {
    LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(state.signing_public(), 4096));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return parse_signing_key(text, state.signing_public());
  }
  std::string path = state.signing_key();
  if (!common::file_exists(path)) {
    return common::Error{common::Code::kVerification,
                         cat("the plans in ", state.path, " cannot be verified: no key at ", path,
                             "; run a farm there, or take another --state")};
  }
  LFARM_ASSIGN_OR_RETURN(common::SigningKey key, common::load_or_create_signing_key(path));
  return key.public_key();
}

Result<PlanTrust> trust_of_met(const FarmAccess& access, const MetFarm& farm) {
  if (!access.trust.empty() && common::to_hex(farm.signer) != access.trust) {
    return common::Error{common::Code::kVerification,
                         "cached plans are of another farm than the trusted one"};
  }
  PlanTrust trust{farm.signer, farm.tenant, {}};
  LFARM_ASSIGN_OR_RETURN(trust.revoked, Revocations(access.state.revocations()).known(farm.signer));
  return trust;
}

Result<FarmClientOptions> client_options(const FarmAccess& access, const std::string& endpoint) {
  std::vector<std::string> coordinators = common::split_endpoints(endpoint);
  for (const std::string& one : coordinators) LFARM_RETURN_IF_ERROR(check_endpoint(one));
  bool is_local = std::all_of(coordinators.begin(), coordinators.end(), common::is_local_endpoint);
  FarmClientOptions out;
  out.endpoint = endpoint;
  out.revocations = access.state.revocations();
  out.trust = [access, endpoint](const common::PublicKey& offered) {
    return trusted_key(access, endpoint, offered);
  };
  if (access.server_key.empty() && is_local) return out;
  const StateDirectory& state = access.state;
  std::string server_key = access.server_key;
  if (server_key.empty()) {
    // A farm of this state directory that other machines can reach as well.
    if (endpoint != running_farm(state)) {
      return common::invalid_input(cat("the farm at ", endpoint,
                                       " is on another machine; give its public key with "
                                       "--farm-key"));
    }
    LFARM_ASSIGN_OR_RETURN(common::KeyPair farm, common::load_key_pair(state.farm_key()));
    server_key = farm.public_key;
  }
  LFARM_RETURN_IF_ERROR(common::check_curve_key(server_key, "--farm-key"));
  if (access.keys.empty()) LFARM_RETURN_IF_ERROR(state.make());
  std::string path = access.keys.empty() ? state.client_keys() : access.keys;
  LFARM_ASSIGN_OR_RETURN(common::KeyPair own, common::load_or_create_key_pair(path));
  out.keys = common::ClientKeys{std::move(own), server_key};
  return out;
}

Result<std::unique_ptr<FarmClient>> connect_to_farm(const FarmAccess& access,
                                                    std::function<common::Status()> on_wait) {
  std::string endpoint = access.endpoint.empty() ? running_farm(access.state) : access.endpoint;
  if (endpoint.empty()) {
    return common::unavailable(cat("no farm runs on ", access.state.path,
                                   "; start one with 'lfarm up' or name one with --farm"));
  }
  LFARM_ASSIGN_OR_RETURN(FarmClientOptions options, client_options(access, endpoint));
  options.on_wait = std::move(on_wait);
  return FarmClient::connect(std::move(options));
}

}  // namespace clients
