#include "common/base/incarnation.h"

#include <sodium.h>

#include <array>
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

}  // namespace common
