// Signatures (libsodium): Ed25519 for what the farm signs, HMAC-SHA256 for protocols that ask for
// it.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

struct SigningKey {
  std::array<std::byte, 64> secret{};
  PublicKey public_key() const;
};

SigningKey make_signing_key();
// Reads the key file, or creates it with mode 0600 when it is missing. kCorrupt when malformed.
Result<SigningKey> load_or_create_signing_key(const std::string& path);
Signature sign(const SigningKey& key, ByteView message);
bool signature_is_valid(const PublicKey& key, ByteView message, const Signature& signature);

using Sha256 = std::array<std::byte, 32>;
Sha256 sha256_of(std::string_view text);
// RFC 2104; the key may have any length.
Sha256 hmac_sha256(std::string_view key, std::string_view text);

}  // namespace common
