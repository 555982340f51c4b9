#include "common/plan/seal.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/contains.h"
#include "common/plan/plan.h"

namespace common {

Digest plan_content(ByteView grant_bytes) { return digest_of(grant_bytes); }

// Not the digest of the bytes alone, so that no list is ever taken for a plan, nor a plan for one.
Digest revocations_content(ByteView list_bytes) {
  return Hasher().text("lfarm revocations").data(list_bytes).finish();
}

Digest place_of(std::string_view tenant, const Digest& plan_key, std::string_view machine) {
  Hasher hasher;
  hasher.text("plan of").text(tenant).digest(plan_key);
  if (!machine.empty()) hasher.text(machine);
  return hasher.finish();
}

Sealed seal(const SigningKey& key, const Digest& content, Bytes bytes) {
  return {std::move(bytes), key.public_key(), sign(key, content.bytes)};
}

Sealed sealed_by(const PublicKey& signer, Proof proof, Bytes bytes) {
  return {std::move(bytes), signer, proof.signature, std::move(proof.delegation)};
}

int64_t time_of(const Sealed& sealed) {
  auto delegation = decode_delegation(sealed.delegation);
  return delegation.ok() ? delegation->from_ns : wall_clock_ns();
}

Status check_seal(const Sealed& sealed, const PublicKey& trusted, const Digest& content,
                  std::string_view what, int64_t wall_ns) {
  auto refuse = [&](const char* why) -> Status {
    return Error{Code::kVerification, cat("the ", what, " ", why)};
  };
  if (sealed.signature == Signature{}) return refuse("is not signed; don't trust its source");
  if (sealed.signer != trusted) return refuse("was signed by another farm than the trusted one");
  return check_proof(sealed.proof(), trusted, content, what, wall_ns);
}

Sealed sign_plan(const SigningKey& key, Bytes grant_bytes) {
  Digest content = plan_content(grant_bytes);
  return seal(key, content, std::move(grant_bytes));
}

Status check_signature(const Sealed& plan, const PublicKey& trusted) {
  return check_signature(plan, trusted, wall_clock_ns());
}

Status check_signature(const Sealed& plan, const PublicKey& trusted, int64_t wall_ns) {
  return check_seal(plan, trusted, plan_content(plan.bytes), "plan", wall_ns);
}

bool RevocationList::holds(const Digest& plan) const { return contains(plans, plan); }

bool RevocationList::holds(const Provenance& made) const {
  return std::any_of(rules.begin(), rules.end(), [&](const RevocationRule& rule) {
    return rule.holds(made.worker, made.toolchain, made.created_ns);
  });
}

bool RevocationList::add(const RevocationList& other) {
  size_t before = plans.size() + rules.size();
  std::set<Digest> all(plans.begin(), plans.end());
  all.insert(other.plans.begin(), other.plans.end());
  plans.assign(all.begin(), all.end());
  for (const RevocationRule& rule : other.rules) {
    if (!contains(rules, rule)) rules.push_back(rule);
  }
  bool is_news =
      plans.size() + rules.size() > before || other.oldest_delegation > oldest_delegation;
  number = std::max(number, other.number);
  until_ns = std::max(until_ns, other.until_ns);
  oldest_delegation = std::max(oldest_delegation, other.oldest_delegation);
  return is_news;
}

Sealed sign_revocations(const SigningKey& key, Bytes list_bytes) {
  Digest content = revocations_content(list_bytes);
  return seal(key, content, std::move(list_bytes));
}

Status check_revocations(const Sealed& list, const PublicKey& trusted) {
  return check_revocations(list, trusted, wall_clock_ns());
}

Status check_revocations(const Sealed& list, const PublicKey& trusted, int64_t wall_ns) {
  return check_seal(list, trusted, revocations_content(list.bytes), "revocation list", wall_ns);
}

}  // namespace common
