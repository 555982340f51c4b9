// Keys of a farm that other machines can reach: made when it first starts, and known to each other.
#pragma once

#include <string>

#include "clients/cli/state_directory.h"
#include "common/base/result.h"

namespace clients {

// Makes the farm's, its workers' and this user's key pairs where they are missing, and puts the
// latter two on the farm's allow-list. Entries that are there stay as they are. Returns the farm's
// public key.
common::Result<std::string> prepare_farm_keys(const StateDirectory& state);

}  // namespace clients
