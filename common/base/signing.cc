#include "common/base/signing.h"

#include <sodium.h>

#include <cstring>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/secret_file.h"

namespace common {
namespace {
constexpr size_t kSigningFileBytesMax = 4096;

unsigned char* raw(std::byte* p) { return reinterpret_cast<unsigned char*>(p); }
const unsigned char* raw(const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); }
const unsigned char* raw(std::string_view text) { return raw(as_bytes(text).data()); }

static_assert(crypto_hash_sha256_BYTES == sizeof(Sha256));
static_assert(crypto_auth_hmacsha256_BYTES == sizeof(Sha256));
}  // namespace

PublicKey SigningKey::public_key() const {
  PublicKey key;
  crypto_sign_ed25519_sk_to_pk(raw(key.data()), raw(secret.data()));
  return key;
}

SigningKey make_signing_key() {
  LFARM_CHECK(sodium_init() >= 0, "libsodium found no source of randomness");
  SigningKey key;
  PublicKey ignored;
  crypto_sign_keypair(raw(ignored.data()), raw(key.secret.data()));
  return key;
}

namespace {

Result<SigningKey> load_signing_key(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(std::string text, read_secret_file(path, kSigningFileBytesMax));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  auto bytes = from_hex(text);
  SigningKey key;
  if (bytes && bytes->size() == key.secret.size()) {
    std::memcpy(key.secret.data(), bytes->data(), key.secret.size());
    // The second half is the public key of the first: else one of them is damaged.
    unsigned char derived_public[crypto_sign_PUBLICKEYBYTES];
    unsigned char derived_secret[crypto_sign_SECRETKEYBYTES];
    crypto_sign_seed_keypair(derived_public, derived_secret, raw(key.secret.data()));
    if (std::memcmp(derived_secret, key.secret.data(), key.secret.size()) == 0) return key;
  }
  return corrupt(cat(path, " is not a signing key; remove it to have a new one made"));
}

}  // namespace

Result<SigningKey> load_or_create_signing_key(const std::string& path) {
  if (file_exists(path)) return load_signing_key(path);
  SigningKey key = make_signing_key();
  LFARM_RETURN_IF_ERROR(create_secret_file(path, to_hex(key.secret) + "\n"));
  return key;
}

Signature sign(const SigningKey& key, ByteView message) {
  Signature signature;
  crypto_sign_detached(raw(signature.data()), nullptr, raw(message.data()), message.size(),
                       raw(key.secret.data()));
  return signature;
}

bool signature_is_valid(const PublicKey& key, ByteView message, const Signature& signature) {
  return crypto_sign_verify_detached(raw(signature.data()), raw(message.data()), message.size(),
                                     raw(key.data())) == 0;
}

Sha256 sha256_of(std::string_view text) {
  Sha256 hash;
  crypto_hash_sha256(raw(hash.data()), raw(text), text.size());
  return hash;
}

Sha256 hmac_sha256(std::string_view key, std::string_view text) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, raw(key), key.size());
  crypto_auth_hmacsha256_update(&state, raw(text), text.size());
  Sha256 code;
  crypto_auth_hmacsha256_final(&state, raw(code.data()));
  return code;
}

}  // namespace common
