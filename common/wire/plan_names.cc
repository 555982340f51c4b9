#include "common/wire/plan_names.h"

#include "common/wire/ir_codec.h"

namespace common {

std::vector<Digest> plan_names(std::string_view sealed) {
  auto outer = decode_sealed(as_bytes(sealed));
  if (!outer.ok()) return {};
  auto grant = decode_grant(outer->bytes);
  if (!grant.ok()) return {};
  auto plan = decode_plan(grant->plan);
  if (!plan.ok()) return {};
  return plan_names(*plan, *outer);
}

std::vector<Digest> plan_names(const Plan& plan, const Sealed& outer) {
  std::vector<Digest> names = {plan.key.digest(), digest_of(outer.bytes)};
  if (!plan.provenance.origin.plan.is_zero()) names.push_back(plan.provenance.origin.plan);
  return names;
}

}  // namespace common
