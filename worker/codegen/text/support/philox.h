// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), one word of
// a counter's four at a time: the same bits on every target and for every order of evaluation.
#pragma once

#include "worker/codegen/text/support/language.h"

#define LF_PHILOX_ROUND                                   \
  first = a * 0xd2511f53u, second = c * 0xcd9e8d57u;      \
  a = (second >> 32) ^ b ^ low, b = second & 0xffffffffu; \
  c = (first >> 32) ^ d ^ high, d = first & 0xffffffffu;  \
  low = (low + 0x9e3779b9u) & 0xffffffffu, high = (high + 0xbb67ae85u) & 0xffffffffu
#define LF_PHILOX_ROUNDS \
  LF_PHILOX_ROUND;       \
  LF_PHILOX_ROUND;       \
  LF_PHILOX_ROUND;       \
  LF_PHILOX_ROUND;       \
  LF_PHILOX_ROUND
LF_INLINE uint32_t lf_philox(uint64_t seed, uint64_t offset, uint64_t subsequence, int64_t word) {
  uint64_t a = offset & 0xffffffffu, b = offset >> 32;
  uint64_t c = subsequence & 0xffffffffu, d = subsequence >> 32;
  uint64_t low = seed & 0xffffffffu, high = seed >> 32, first, second;
  LF_PHILOX_ROUNDS;
  LF_PHILOX_ROUNDS;
  word &= 3;
  return (uint32_t)(word == 0 ? a : word == 1 ? b : word == 2 ? c : d);
}
LF_INLINE int64_t lf_philox_i64(int64_t seed, int64_t offset, int64_t subsequence, int64_t word) {
  return lf_philox((uint64_t)seed, (uint64_t)offset, (uint64_t)subsequence, word);
}
// In (0, 1].
LF_INLINE float lf_philox_f32(int64_t seed, int64_t offset, int64_t subsequence, int64_t word) {
  uint32_t x = lf_philox((uint64_t)seed, (uint64_t)offset, (uint64_t)subsequence, word);
  return (float)x * 0x1p-32f + 0x1p-33f;
}
