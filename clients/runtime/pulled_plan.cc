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

Result<common::Plan> open_signed_plan(common::ByteView blob, const common::PublicKey& trusted,
                                      const common::PlanKey& key) {
  LFARM_ASSIGN_OR_RETURN(common::SignedPlan signed_plan, common::decode_signed_plan(blob));
  LFARM_RETURN_IF_ERROR(common::check_signature(signed_plan, trusted));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(signed_plan.bytes));
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
