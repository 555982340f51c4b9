// What a farm signs beside a plan: whose the plan is, and which plans nobody may load any more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/base/signing.h"
#include "common/plan/delegation.h"
#include "common/plan/revocation_rule.h"

namespace common {

// Bytes that a farm vouches for, a plan's grant or a list of revocations, with its signature over a
// digest that says which of the two they are.
struct Sealed {
  Bytes bytes;
  PublicKey signer{};  // whom clients trust: the key that has signed, or the root of its delegation
  Signature signature{};
  Bytes delegation = {};  // encoded; empty: `signer` itself has signed

  Proof proof() const { return {signature, delegation}; }
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
// The same of a signature that was made elsewhere, over what `signer` stands for.
Sealed sealed_by(const PublicKey& signer, Proof proof, Bytes bytes);
// kVerification, naming which: not signed at all, signed by another key than `trusted`, changed
// since, or signed under a delegation that is not in force at that time (check_delegation).
// `content` is what the signature is over, `what` the thing's name.
Status check_seal(const Sealed& sealed, const PublicKey& trusted, const Digest& content,
                  std::string_view what, int64_t wall_ns);
// A time at which the seal's delegation, if it has one, is in force: for what was checked when it
// came, and is kept.
int64_t time_of(const Sealed& sealed);

Sealed sign_plan(const SigningKey& key, Bytes grant_bytes);
// What the signatures of plans and of revocations are over.
Digest plan_content(ByteView grant_bytes);
Digest revocations_content(ByteView list_bytes);
// kVerification when the bytes were not signed by `trusted`, at this time or at the one given.
Status check_signature(const Sealed& plan, const PublicKey& trusted);
Status check_signature(const Sealed& plan, const PublicKey& trusted, int64_t wall_ns);

struct Provenance;

// Plans that must not be loaded any more. Entries are never withdrawn: a client that has read
// several lists applies all of them.
struct RevocationList {
  std::vector<Digest> plans;  // by the digests of their signed bytes
  std::vector<RevocationRule> rules = {};
  uint64_t number = 0;  // grows with each list that a farm signs; 0: of an earlier release
  // When clients take the list from a farm no more, which signs it anew before; 0: never. What it
  // says holds beyond.
  int64_t until_ns = 0;
  // Of the delegation under which the list was signed (Delegation::oldest_valid); crosses no wire.
  uint64_t oldest_delegation = 0;

  bool holds(const Digest& plan) const;
  // Whether a rule is about plans that were made so.
  bool holds(const Provenance& made) const;
  bool is_empty() const { return plans.empty() && rules.empty() && oldest_delegation == 0; }
  // Adds what another list says. Whether anything of it was new.
  bool add(const RevocationList& other);
};
Sealed sign_revocations(const SigningKey& key, Bytes list_bytes);
Status check_revocations(const Sealed& list, const PublicKey& trusted);
Status check_revocations(const Sealed& list, const PublicKey& trusted, int64_t wall_ns);

}  // namespace common
