// Pairs of halves in a word; kExponents has the exponent bits of both. Those of infinities and NaN
// are all set, so that one more overflows into the sign.
#pragma once

#include "worker/codegen/cuda/support/base.cuh"
#include "worker/codegen/text/support/number.h"

template <uint32_t kExponents>
LF_INLINE uint32_t lf_not_finite(uint32_t pair) {
  return ((pair & kExponents) + (kExponents & ~(kExponents << 1))) & 0x80008000u;
}
template <uint32_t kExponents>
LF_INLINE uint32_t lf_finite_or_zero(uint32_t pair) {
  return pair & ~((lf_not_finite<kExponents>(pair) >> 15) * 0xffffu);
}

// Two values rounded to halves of a word, the first the lower.
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
LF_INLINE uint32_t lf_pair_bf16(float p, float q) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(q), "f"(p));
  return r;
}
LF_INLINE uint32_t lf_pair_f16(float p, float q) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(q), "f"(p));
  return r;
}
#else
LF_INLINE uint32_t lf_pair_bf16(float p, float q) {
  return lf_bf16_from_f32(p) | (uint32_t)lf_bf16_from_f32(q) << 16;
}
LF_INLINE uint32_t lf_pair_f16(float p, float q) {
  return lf_f16_from_f32(p) | (uint32_t)lf_f16_from_f32(q) << 16;
}
#endif
