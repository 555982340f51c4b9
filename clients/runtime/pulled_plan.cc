#include "clients/runtime/pulled_plan.h"

#include "common/base/cat.h"
#include "common/wire/ir_codec.h"

namespace clients {

using common::cat;
using common::Result;

common::ObjectSource PulledPlan::object_source() const {
  return [this](const common::Digest& digest) -> Result<common::ByteView> {
    auto found = objects.find(digest);
    if (found == objects.end()) {
      return common::corrupt(cat("the plan's object ", digest.short_hex(), " is missing"));
    }
    return found->second.bytes;
  };
}

Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust) {
  LFARM_ASSIGN_OR_RETURN(common::SignedPlan outer, common::decode_signed_plan(blob));
  // Not a byte of the content is looked at before this holds.
  LFARM_RETURN_IF_ERROR(common::check_signature(outer, trust.signer));
  LFARM_ASSIGN_OR_RETURN(common::PlanGrant grant, common::decode_grant(outer.bytes));
  common::Digest id = common::digest_of(blob);
  if (grant.tenant != trust.tenant) {
    return common::Error{common::Code::kVerification,
                         cat("plan ", id.short_hex(), " is for tenant ", grant.tenant, ", not for ",
                             trust.tenant, "; submit the model to have one of your own")};
  }
  if (trust.revoked.holds(id)) {
    return common::Error{common::Code::kVerification,
                         cat("plan ", id.short_hex(),
                             " was revoked by the farm that signed it; 'lfarm cache revoke ",
                             id.short_hex(), "' removes it from a cache that still has it")};
  }
  return common::decode_plan(grant.plan);
}

Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust,
                                      const common::PlanKey& key) {
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, open_signed_plan(blob, trust));
  common::PlanKey exact = key;
  if (common::is_target(plan.key.target.name, key.target.name)) exact.target = plan.key.target;
  if (plan.key != exact) {
    return common::Error{
        common::Code::kVerification,
        cat("a plan for graph ", plan.key.graph_hash.short_hex(), " on ", plan.key.target.name,
            " came instead of one for graph ", key.graph_hash.short_hex(), " on ", key.target.name,
            "; don't trust this cache")};
  }
  return plan;
}

}  // namespace clients
