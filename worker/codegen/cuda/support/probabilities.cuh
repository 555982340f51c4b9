// Scores and probabilities of attention.
#pragma once

#include "worker/codegen/cuda/support/float_math.cuh"
#include "worker/codegen/text/support/number.h"

// NaN where either is, as lf_max_f32, in one instruction.
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
LF_INLINE float lf_greater(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
#else
LF_INLINE float lf_greater(float a, float b) { return lf_max_f32(a, b); }
#endif

// exp(x - shift) for x up to shift, in fewer instructions than expf. Scores as low as a mask may be
// must not be multiplied before they are subtracted: the product would be infinite.
LF_INLINE float lf_exp_less(float x, float shift) { return lf_exp2_f32((x - shift) * 1.44269504f); }

// Two probabilities become pairs of bfloat16: rounded down, and what that leaves. Of what is not 0
// neither is, and neither is negative: times infinity both are infinite.
LF_INLINE void lf_two_bf16(float p, float q, uint32_t& high, uint32_t& low) {
  const float least_p = p == 0 ? 0 : 0x1p-100f, least_q = q == 0 ? 0 : 0x1p-100f;
  p += least_p;
  q += least_q;
  const uint32_t a = lf_bits_f32(p), b = lf_bits_f32(q);
  const float rest_p = p - lf_f32_bits(a & 0xffff0000u) + least_p;
  const float rest_q = q - lf_f32_bits(b & 0xffff0000u) + least_q;
  high = __byte_perm(a, b, 0x7632);
  low = __byte_perm(lf_bits_f32(rest_p) + 0x8000u, lf_bits_f32(rest_q) + 0x8000u, 0x7632);
}
