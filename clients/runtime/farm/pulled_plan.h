// A plan as a client holds it: checked against the farm's key, with the machine code it needs.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "common/base/result.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"
#include "common/runtime/executor/executor.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"

namespace clients {

struct PulledPlan {
  common::Plan plan;
  common::Digest id;                // of the signed bytes
  common::SharedBytes signed_plan;  // what the farm signed, as it came
  std::unordered_map<common::Digest, common::SharedBytes> objects;
  // What finding it took. For a plan that was there already, candidates and times are those of the
  // search that found it.
  common::PlanReady facts;

  // Valid as long as the plan is.
  common::ObjectSource object_source() const;
};

// PulledPlan::facts of a plan that was found in a cache without a farm.
common::PlanReady facts_of_hit(const common::Plan& plan, const common::Digest& id);

// Whether the search that found the plan was given as much. Limits of 0 are none of that kind;
// plans of earlier releases do not say what theirs was given.
bool was_given(const common::Provenance& provenance, uint64_t candidates, uint64_t ms);
// For people, in one line: which plan it is, how far it can be expected to be replaced, and how
// much faster it is than the plain one.
std::string describe(const PulledPlan& plan);

// What a plan must be before anything of it is loaded.
struct PlanTrust {
  common::PublicKey signer{};
  std::string tenant;
  common::RevocationList revoked;
};

// The plan in a blob of encode_sealed(). kVerification, naming which, when it is not signed,
// or not by the trusted key, was changed since, is another tenant's or was revoked; kCorrupt when
// the bytes are damaged.
common::Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust);
// The same; kVerification also unless it was made under `key`, whose target may be a family's.
common::Result<common::Plan> open_signed_plan(common::ByteView blob, const PlanTrust& trust,
                                              const common::PlanKey& key);
// The same for bytes whose signature by the trusted key the caller has checked in some other way.
common::Result<common::Plan> open_checked_plan(common::ByteView blob, const PlanTrust& trust,
                                               const common::PlanKey& key);

}  // namespace clients
