// A root key's word that another key signs in its name for a while, so that the root key is needed
// only when that while ends.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/base/signing.h"

namespace common {

struct Delegation {
  PublicKey root{};
  PublicKey key{};      // that signs
  uint64_t number = 0;  // those of one root count up
  // Delegations of the root with lower numbers are void, ended or not: one of their keys was lost.
  uint64_t oldest_valid = 0;
  int64_t from_ns = 0, until_ns = 0;  // of the wall clock
  Signature signature{};              // the root's, over all of the above
};

// Signed by `root`.
Delegation delegate(const SigningKey& root, Delegation delegation);

// 160 bytes, of which the root's key is the first 32.
inline constexpr size_t kDelegationBytes = 160;
Bytes encode_delegation(const Delegation& delegation);
// kCorrupt unless it has that size. Nothing is believed yet.
Result<Delegation> decode_delegation(ByteView bytes);

// kVerification, naming which: of another root than `trusted`, not signed by it, void by its own
// word, or not in force at that time, with five minutes on either side for clocks that differ.
Status check_delegation(const Delegation& delegation, const PublicKey& trusted, int64_t wall_ns);

// A delegation's file: 320 hexadecimal digits and a line's end. kInvalidInput, kCorrupt.
Result<Delegation> read_delegation_file(const std::string& path);
Status write_delegation_file(const std::string& path, const Delegation& delegation);

// A signature and the delegation under which it was made, if any.
struct Proof {
  Signature signature{};
  Bytes delegation;  // encoded; empty: the trusted key itself has signed
};
// Whether `trusted`, or a key to which it has delegated, has signed the content.
// kVerification, naming `what`.
Status check_proof(const Proof& proof, const PublicKey& trusted, const Digest& content,
                   std::string_view what, int64_t wall_ns);
// For bytes that follow one another: 64 bytes where nothing was delegated, else 64 zero bytes, the
// delegation and the signature.
Bytes encode_proof(const Proof& proof);
// The proof at the beginning of `bytes`, which become what follows it. kCorrupt.
Result<Proof> take_proof(ByteView* bytes);

}  // namespace common
