// A plan of the store with whose it is.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/signing.h"
#include "common/plan/delegation.h"
#include "common/plan/plan.h"

namespace coordinator::service {

struct OwnedPlan {
  common::PublicKey signer{};
  std::string tenant;
  common::Plan plan;
  std::optional<common::Delegation> delegation = {};  // under which it is signed
};

// What a stored plan's bytes hold; its signature is not looked at, since the store is the farm's.
common::Result<OwnedPlan> decode_owned(const std::string& stored);

}  // namespace coordinator::service
