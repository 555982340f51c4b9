#include "common/plan/seal.h"

#include <utility>

#include "common/base/cat.h"
#include "common/base/contains.h"

namespace common {
namespace {

// Not the digest of the bytes alone, so that no list is ever taken for a plan, nor a plan for one.
Digest revocations_digest(ByteView bytes) {
  return Hasher().text("lfarm revocations").data(bytes).finish();
}

}  // namespace

Digest place_of(std::string_view tenant, const Digest& plan_key, std::string_view machine) {
  Hasher hasher;
  hasher.text("plan of").text(tenant).digest(plan_key);
  if (!machine.empty()) hasher.text(machine);
  return hasher.finish();
}

Sealed seal(const SigningKey& key, const Digest& content, Bytes bytes) {
  return {std::move(bytes), key.public_key(), sign(key, content.bytes)};
}

Status check_seal(const Sealed& sealed, const PublicKey& trusted, const Digest& content,
                  std::string_view what) {
  auto refuse = [&](const char* why) -> Status {
    return Error{Code::kVerification, cat("the ", what, " ", why)};
  };
  if (sealed.signature == Signature{}) return refuse("is not signed; don't trust its source");
  if (sealed.signer != trusted) return refuse("was signed by another farm than the trusted one");
  if (!signature_is_valid(trusted, content.bytes, sealed.signature)) {
    return refuse("was changed after it was signed: its signature does not match its content");
  }
  return {};
}

Sealed sign_plan(const SigningKey& key, Bytes grant_bytes) {
  Digest content = digest_of(grant_bytes);
  return seal(key, content, std::move(grant_bytes));
}

Status check_signature(const Sealed& plan, const PublicKey& trusted) {
  return check_seal(plan, trusted, digest_of(plan.bytes), "plan");
}

bool RevocationList::holds(const Digest& plan) const { return contains(plans, plan); }

Sealed sign_revocations(const SigningKey& key, Bytes list_bytes) {
  Digest content = revocations_digest(list_bytes);
  return seal(key, content, std::move(list_bytes));
}

Status check_revocations(const Sealed& list, const PublicKey& trusted) {
  return check_seal(list, trusted, revocations_digest(list.bytes), "revocation list");
}

}  // namespace common
