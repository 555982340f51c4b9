#include "common/base/incarnation.h"

#include <sodium.h>

#include <array>
#include <cstring>
#include <span>

#include "common/base/bytes.h"
#include "common/base/check.h"

namespace common {

Incarnation Incarnation::draw() {
  LFARM_CHECK(sodium_init() >= 0, "libsodium found no source of randomness");
  Incarnation drawn;
  randombytes_buf(&drawn, sizeof drawn);
  return drawn;
}

std::string Incarnation::hex() const {
  const std::array words{high, low};
  return to_hex(std::as_bytes(std::span(words)));
}

std::optional<Incarnation> Incarnation::parse(std::string_view hex) {
  auto bytes = from_hex(hex);
  std::array<uint64_t, 2> words{};
  if (!bytes || bytes->size() != sizeof words) return std::nullopt;
  std::memcpy(words.data(), bytes->data(), sizeof words);
  return Incarnation{words[0], words[1]};
}

}  // namespace common
