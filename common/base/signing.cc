#include "common/base/signing.h"

#include <sodium.h>
#include <unistd.h>

#include <cstring>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace common {
namespace {
unsigned char* raw(std::byte* p) { return reinterpret_cast<unsigned char*>(p); }
const unsigned char* raw(const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); }
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

Result<SigningKey> load_or_create_signing_key(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    SigningKey key = make_signing_key();
    LFARM_RETURN_IF_ERROR(write_file_atomic(path, as_bytes(to_hex(key.secret) + "\n")));
    return key;
  }
  LFARM_ASSIGN_OR_RETURN(std::string text, read_file(path, 4096));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  auto bytes = from_hex(text);
  if (!bytes || bytes->size() != 64) {
    return corrupt(cat(path, " is not a signing key; remove it to have a new one made"));
  }
  SigningKey key;
  std::memcpy(key.secret.data(), bytes->data(), 64);
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

}  // namespace common
