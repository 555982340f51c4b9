#include "common/base/digest.h"

#include <sodium.h>

#include <cstring>

#include "common/base/check.h"

namespace common {
namespace {
crypto_generichash_state* state_of(unsigned char* raw) {
  return reinterpret_cast<crypto_generichash_state*>(raw);
}
}  // namespace

uint64_t Digest::prefix64() const {
  uint64_t value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::optional<Digest> Digest::parse(std::string_view hex) {
  auto raw = from_hex(hex);
  if (!raw || raw->size() != 32) return std::nullopt;
  Digest digest;
  std::memcpy(digest.bytes.data(), raw->data(), 32);
  return digest;
}

namespace {
Digest blake2b(ByteView bytes, const std::byte* key, size_t key_size) {
  Digest digest;
  crypto_generichash(reinterpret_cast<unsigned char*>(digest.bytes.data()), 32,
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     reinterpret_cast<const unsigned char*>(key), key_size);
  return digest;
}
}  // namespace

Digest digest_of(ByteView bytes) { return blake2b(bytes, nullptr, 0); }

Digest keyed_digest_of(const Digest& key, ByteView bytes) {
  return blake2b(bytes, key.bytes.data(), key.bytes.size());
}

Digest random_key() {
  LFARM_CHECK(sodium_init() >= 0, "libsodium found no source of randomness");
  Digest key;
  randombytes_buf(key.bytes.data(), key.bytes.size());
  return key;
}

Hasher::Hasher() {
  static_assert(sizeof(crypto_generichash_state) <= sizeof state_);
  crypto_generichash_init(state_of(state_.data()), nullptr, 0, 32);
}

void Hasher::raw(const void* data, size_t size) {
  if (size > buffer_.size() - used_) flush();
  if (size > buffer_.size()) {
    crypto_generichash_update(state_of(state_.data()), static_cast<const unsigned char*>(data),
                              size);
    return;
  }
  if (size != 0) std::memcpy(buffer_.data() + used_, data, size);
  used_ += size;
}

void Hasher::flush() {
  crypto_generichash_update(state_of(state_.data()), buffer_.data(), used_);
  used_ = 0;
}

Hasher& Hasher::u64(uint64_t value) {
  raw(&value, sizeof value);
  return *this;
}

Hasher& Hasher::data(ByteView value) {
  u64(value.size());
  raw(value.data(), value.size());
  return *this;
}

Hasher& Hasher::digest(const Digest& value) {
  raw(value.bytes.data(), value.bytes.size());
  return *this;
}

Digest Hasher::finish() {
  flush();
  Digest digest;
  crypto_generichash_final(state_of(state_.data()),
                           reinterpret_cast<unsigned char*>(digest.bytes.data()), 32);
  return digest;
}

}  // namespace common
