// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), which a
// kPhilox node computes.
#pragma once

#include <array>
#include <cstdint>

namespace common {

// The four words of a counter: key `seed`, counter (offset low, offset high, subsequence low,
// subsequence high).
inline std::array<uint32_t, 4> philox(uint64_t seed, uint64_t offset, uint64_t subsequence) {
  auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  std::array<uint32_t, 4> x = {low(offset), high(offset), low(subsequence), high(subsequence)};
  std::array<uint32_t, 2> key = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * x[0], second = uint64_t{0xCD9E8D57} * x[2];
    x = {high(second) ^ x[1] ^ key[0], low(second), high(first) ^ x[3] ^ key[1], low(first)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return x;
}

// A word of a counter as a number in (0, 1].
inline float philox_uniform(uint32_t word) {
  return static_cast<float>(word) * 0x1p-32F + 0x1p-33F;
}

}  // namespace common
