// Pairs of halves in a word; kExponents has the exponent bits of both. Those of infinities and NaN
// are all set, so that one more overflows into the sign.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"

template <uint32_t kExponents>
LF_INLINE uint32_t lf_not_finite(uint32_t pair) {
  return ((pair & kExponents) + (kExponents & ~(kExponents << 1))) & 0x80008000u;
}
template <uint32_t kExponents>
LF_INLINE uint32_t lf_finite_or_zero(uint32_t pair) {
  return pair & ~((lf_not_finite<kExponents>(pair) >> 15) * 0xffffu);
}
