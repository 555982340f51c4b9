// What a file of plans (clients/runtime/farm/plan_archive.h) holds, held against what may be
// trusted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/runtime/farm/plan_archive.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "common/base/result.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"

namespace clients {

// A plan of the file, whatever was found about it.
struct FiledPlan {
  common::Digest id;
  common::PublicKey signer{};
  std::string tenant;
  common::Plan plan;
};

// One thing that must hold, and whether it does.
struct Finding {
  std::string about;  // "plan 0123456789ab", or the file's name
  std::string what;   // "signature", "objects"
  common::Status status;
};

struct PlanFile {
  std::vector<FiledPlan> plans;
  std::vector<Finding> findings;
  // The first that does not hold.
  common::Status status() const;
  // kUnsupported unless all plans are of one signer and tenant, which is returned.
  common::Result<PlanTrust> owner() const;
};

// Whether plans of this signer may be taken.
using SignerCheck = std::function<common::Status(const common::PublicKey& signer)>;

// Reads every part once, one at a time. `known`: what was revoked, as far as is known here; what
// the file says itself counts too.
PlanFile examine(
    const PlanArchive& archive, const SignerCheck& trusted,
    const std::function<common::Result<common::RevocationList>(const common::PublicKey&)>& known);

// The check for this machine: the key that --trust names, the state directory's own, that of a farm
// that was met; else the signer of the first file, which remember_signer() notes, and no other.
SignerCheck signers_trusted_here(const FarmOptions& options);
// To be called with the signer of a file that is used, all of which holds.
common::Status remember_signer(const FarmOptions& options, const common::PublicKey& signer);

// The plan with its objects, which must be in the file.
common::Result<PulledPlan> read_plan(const PlanArchive& archive, const FiledPlan& plan);

}  // namespace clients
