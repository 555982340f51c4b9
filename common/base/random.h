// A small deterministic generator: the same seed gives the same sequence on every platform.
#pragma once

#include <cstdint>

#include "common/base/hash64.h"

namespace common {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix64(seed)) {}
  uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  // Uniform in [0, bound); bound > 0. The bias is below 2^-32 for bounds below 2^32.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return unit() < probability; }

 private:
  uint64_t state_;
};

}  // namespace common
