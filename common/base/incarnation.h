// One life of a process that others remember: a random number that no other life has, of whatever
// replica, on whatever machine and with whatever state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace common {

struct Incarnation {
  uint64_t high = 0, low = 0;

  // From the system's source of randomness.
  static Incarnation draw();
  std::string hex() const;  // 32 digits
  static std::optional<Incarnation> parse(std::string_view hex);
  friend bool operator==(const Incarnation&, const Incarnation&) = default;
};

}  // namespace common
