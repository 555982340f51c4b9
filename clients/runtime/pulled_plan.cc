#include "clients/runtime/pulled_plan.h"

#include "common/base/cat.h"
#include "common/wire/ir_codec.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

common::ObjectSource PulledPlan::object_source() const {
  return [this](const common::Digest& digest) -> Result<common::ByteView> {
    auto found = objects.find(digest);
    if (found == objects.end()) {
      return common::corrupt(cat("the plan's object ", digest.short_hex(), " is missing"));
    }
    return found->second.bytes;
  };
}

namespace {

Status check_signer(const common::SignedPlan& outer, const PlanTrust& trust) {
  return common::check_signature(outer, trust.signer);
}

Status believe(const common::SignedPlan&, const PlanTrust&) { return {}; }

// Not a byte of the content is looked at before `check` has passed.
Result<common::Plan> open_plan(common::ByteView blob, const PlanTrust& trust,
                               Status (*check)(const common::SignedPlan&, const PlanTrust&)) {
  LFARM_ASSIGN_OR_RETURN(common::SignedPlan outer, common::decode_signed_plan(blob));
  LFARM_RETURN_IF_ERROR(check(outer, trust));
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

Result<common::Plan> of_key(Result<common::Plan> opened, const common::PlanKey& key) {
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, std::move(opened));
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

}  // namespace

Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust) {
  return open_plan(blob, trust, check_signer);
}

Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust,
                                      const common::PlanKey& key) {
  return of_key(open_plan(blob, trust, check_signer), key);
}

Result<common::Plan> open_checked_plan(common::ByteView blob, const PlanTrust& trust,
                                       const common::PlanKey& key) {
  return of_key(open_plan(blob, trust, believe), key);
}

}  // namespace clients
