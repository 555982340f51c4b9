// 256-bit content digests (BLAKE2b) and the hasher that builds them field by field.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/bytes.h"

namespace common {

struct Digest {
  std::array<std::byte, 32> bytes{};
  friend auto operator<=>(const Digest&, const Digest&) = default;

  std::string hex() const { return to_hex(bytes); }
  // The first 12 hexadecimal characters, for people.
  std::string short_hex() const { return hex().substr(0, 12); }
  // The first 8 bytes as a number, for hash tables.
  uint64_t prefix64() const;
  bool is_zero() const { return *this == Digest{}; }
  static std::optional<Digest> parse(std::string_view hex);
};

Digest digest_of(ByteView bytes);
inline Digest digest_of(std::string_view text) { return digest_of(as_bytes(text)); }
// What nobody without the key can tell or make: BLAKE2b keyed with it.
Digest keyed_digest_of(const Digest& key, ByteView bytes);
// A key that was never used before.
Digest random_key();

// Feeds fields into one digest. Strings and byte strings are length-prefixed, so that
// ("ab","c") and ("a","bc") differ. Not thread-safe.
class Hasher {
 public:
  Hasher();
  Hasher& u64(uint64_t value);
  Hasher& i64(int64_t value) { return u64(static_cast<uint64_t>(value)); }
  Hasher& text(std::string_view value) { return data(as_bytes(value)); }
  Hasher& data(ByteView value);
  Hasher& digest(const Digest& value);
  // Ends the hasher; call once.
  Digest finish();

 private:
  void flush();
  void raw(const void* data, size_t size);
  alignas(64) std::array<unsigned char, 384> state_;
  std::array<unsigned char, 512> buffer_;
  size_t used_ = 0;
};

}  // namespace common

template <>
struct std::hash<common::Digest> {
  size_t operator()(const common::Digest& digest) const noexcept { return digest.prefix64(); }
};
