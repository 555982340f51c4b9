#include "clients/runtime/farm/pulled_plan.h"

#include "common/base/cat.h"
#include "common/plan/speedup.h"
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

namespace {

uint64_t count(int64_t number) { return number > 0 ? static_cast<uint64_t>(number) : 0; }

// The plan in `blob`, which decoded to `outer` and whose signature was checked.
Result<common::Plan> open_content(common::ByteView blob, const common::Sealed& outer,
                                  const PlanTrust& trust) {
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
  auto delegation = common::decode_delegation(outer.delegation);
  if (delegation.ok() && delegation->number < trust.revoked.oldest_delegation) {
    return common::Error{common::Code::kVerification,
                         cat("plan ", id.short_hex(),
                             " was signed under a delegation that its root key has withdrawn")};
  }
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, common::decode_plan(grant.plan));
  if (!trust.revoked.holds(plan.provenance)) return plan;
  return common::Error{
      common::Code::kVerification,
      cat("plan ", id.short_hex(), " was revoked by the farm that signed it, with all that worker ",
          plan.provenance.worker, " or its toolchain made at that time")};
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

common::PlanReady facts_of_hit(const common::Plan& plan, const common::Digest& id) {
  common::PlanReady facts;
  facts.plan_key = plan.key.digest();
  facts.plan = id;
  facts.cache = common::CacheOutcome::kHit;
  facts.candidates = count(plan.provenance.search.candidates);
  facts.best_ns = count(plan.provenance.best_ns);
  facts.baseline_ns = count(plan.provenance.baseline_ns);
  if (plan.provenance.search.is_interim) facts.standing = common::Standing::kInterim;
  return facts;
}

bool was_given(const common::Provenance& provenance, uint64_t candidates, uint64_t ms) {
  auto reaches = [](int64_t limit, uint64_t wanted) {
    return limit == 0 || (wanted != 0 && count(limit) >= wanted);
  };
  bool is_known = provenance.search.budget_candidates != 0 || provenance.search.budget_ms != 0;
  return is_known && reaches(provenance.search.budget_candidates, candidates) &&
         reaches(provenance.search.budget_ms, ms);
}

std::string describe(const PulledPlan& plan) {
  const common::Provenance& from = plan.plan.provenance;
  std::string text =
      cat("plan ", plan.id.short_hex(), ", ", common::standing_name(plan.facts.standing), ", ",
          from.search.candidates, from.search.candidates == 1 ? " candidate" : " candidates");
  std::string speedup = common::speedup_text(from);
  if (!speedup.empty()) text += cat(", ", speedup, " as fast as the plain plan");
  return text;
}

Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust) {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(blob));
  // Not a byte of the content is looked at before this holds.
  LFARM_RETURN_IF_ERROR(common::check_signature(outer, trust.signer));
  return open_content(blob, outer, trust);
}

Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust,
                                      const common::PlanKey& key) {
  return of_key(open_signed_plan(blob, trust), key);
}

Result<common::Plan> open_checked_plan(common::ByteView blob, const PlanTrust& trust,
                                       const common::PlanKey& key) {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(blob));
  return of_key(open_content(blob, outer, trust), key);
}

}  // namespace clients
