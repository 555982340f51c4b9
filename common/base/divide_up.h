// Quotients of whole numbers, rounded up: how many parts of a size cover something.
#pragma once

#include <cstdint>

namespace common {

// The divisor is positive, the value not negative.
constexpr int64_t divide_up(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace common
