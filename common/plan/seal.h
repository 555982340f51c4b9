// What a farm signs beside a plan: whose the plan is, and which plans nobody may load any more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/base/signing.h"

namespace common {

// Bytes that a farm vouches for, a plan's grant or a list of revocations, with its signature over a
// digest that says which of the two they are.
struct Sealed {
  Bytes bytes;
  PublicKey signer{};
  Signature signature{};
};

// The farm's word that a plan is for a tenant. Sealed::bytes are an encoded grant, so that
// nobody moves a plan from one tenant to another; the same plan is published to a second tenant by
// signing a second grant.
struct PlanGrant {
  std::string tenant;
  Bytes plan;  // encoded
};

// Under which a farm keeps the plan that a tenant has for a plan key and a machine class
// (common/runtime/machine_class.h). Empty: the class is not known, as in releases before classes.
Digest place_of(std::string_view tenant, const Digest& plan_key, std::string_view machine = {});

// Signs `bytes`; `content` is what the signature is over.
Sealed seal(const SigningKey& key, const Digest& content, Bytes bytes);
// kVerification, naming which: not signed at all, signed by another key than `trusted`, or changed
// since. `content` is what the signature is over, `what` the thing's name.
Status check_seal(const Sealed& sealed, const PublicKey& trusted, const Digest& content,
                  std::string_view what);

Sealed sign_plan(const SigningKey& key, Bytes grant_bytes);
// kVerification when the bytes were not signed by `trusted`.
Status check_signature(const Sealed& plan, const PublicKey& trusted);

// Plans that nobody may load any more, whoever has a copy, by the digests of their signed bytes.
struct RevocationList {
  std::vector<Digest> plans;
  bool holds(const Digest& plan) const;
};
Sealed sign_revocations(const SigningKey& key, Bytes list_bytes);
Status check_revocations(const Sealed& list, const PublicKey& trusted);

}  // namespace common
