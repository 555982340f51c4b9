// Which farm a client talks to, with which keys, and whose plans it takes.
#pragma once

#include <memory>
#include <string>

#include "clients/runtime/farm/farm_client.h"
#include "clients/runtime/farm/met_farms.h"
#include "clients/runtime/farm/state_directory.h"
#include "common/base/result.h"
#include "common/base/signing.h"

namespace clients {

struct FarmAccess {
  std::string endpoint;    // empty: the farm that runs on the state directory
  std::string server_key;  // the farm's CURVE public key, for farms on other machines
  std::string keys;        // file of this client's CURVE key pair; empty: the state directory's
  std::string trust;       // the farm's signing key, in hex; empty: the one of the first meeting
  StateDirectory state;
};

// The endpoint of the farm that `lfarm up` runs on the state directory; empty when none does.
std::string running_farm(const StateDirectory& state);

// The public part of the key that farms on the state directory sign with. kVerification when there
// is none yet.
common::Result<common::PublicKey> own_signing_key(const StateDirectory& state);

// What plans of a farm that was met before must be while it is away. kVerification when another
// farm is to be trusted than the one that was met.
common::Result<PlanTrust> trust_of_met(const FarmAccess& access, const MetFarm& farm);

// What it takes to reach the farm at `endpoint`, which need not be the one that `access` names.
// Makes the client's keys where they are needed and missing. kInvalidInput when the farm is on
// another machine and its key is not given.
common::Result<FarmClientOptions> client_options(const FarmAccess& access,
                                                 const std::string& endpoint);

// Connects to the farm that `access` names, or that runs on the state directory. kUnavailable when
// there is none; never starts one. `on_wait`: see FarmClientOptions.
common::Result<std::unique_ptr<FarmClient>> connect_to_farm(
    const FarmAccess& access, std::function<common::Status()> on_wait = {});

}  // namespace clients
