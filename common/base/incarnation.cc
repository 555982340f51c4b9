#include "common/base/incarnation.h"

#include <sodium.h>

#include <cstdio>

#include "common/base/check.h"

namespace common {

Incarnation Incarnation::draw() {
  LFARM_CHECK(sodium_init() >= 0, "libsodium found no source of randomness");
  Incarnation drawn;
  randombytes_buf(&drawn, sizeof drawn);
  return drawn;
}

std::string Incarnation::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

}  // namespace common
