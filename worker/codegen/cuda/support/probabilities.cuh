// Scores and probabilities of attention.
#pragma once

#include "worker/codegen/cuda/support/float_math.cuh"
#include "worker/codegen/cuda/support/halves.cuh"
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

// exp(x - shift) for x = score * scale up to shift, as one multiply-add and one power of two:
// factor is scale * log2(e), scaled is shift * log2(e), and lf_fits_scaled(shift) says that none of
// these products is infinite. What is less than float32's least normal number becomes 0.
LF_INLINE bool lf_fits_scaled(float shift) { return fabsf(shift) < 1e38f; }
LF_INLINE float lf_exp_scaled(float score, float factor, float scaled) {
  const float power = fmaf(score, factor, -scaled);
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(power));
  return r;
#else
  return lf_exp2_f32(power);
#endif
}

// 1 / x to float32's last place, in one instruction; of numbers below the least normal one
// infinity.
#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
LF_INLINE float lf_inverse(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
#else
LF_INLINE float lf_inverse(float x) { return 1 / x; }
#endif

// Of the four threads that have a row: its greatest value, NaN where one is, and its sum.
LF_INLINE float lf_quad_greatest(float x) {
  x = lf_greater(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return lf_greater(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
LF_INLINE float lf_quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
// The four threads of a row have columns 2 t and 2 t + 1 of each tile of eight. Of four tiles
// thread t gets tile t; of two it gets columns t / 2 * 4 and the next three of tile t % 2.
LF_INLINE void lf_exchange_columns(const float (&x)[2][2], int t, float (&y)[4]) {
  const bool is_odd = t % 2 != 0;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const float own = is_odd ? x[1][c] : x[0][c];
    const float other = __shfl_xor_sync(0xffffffffu, is_odd ? x[0][c] : x[1][c], 1);
    y[c] = is_odd ? other : own;
    y[2 + c] = is_odd ? own : other;
  }
}
LF_INLINE void lf_exchange_columns(const float (&x)[4][2], int t, float (&y)[8]) {
  const bool is_behind = t / 2 != 0;
  float pair[2][2][2];  // of threads t % 2 and that + 2: tiles t / 2 * 2 and the next
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const float own = is_behind ? x[2 + i][c] : x[i][c];
      const float other = __shfl_xor_sync(0xffffffffu, is_behind ? x[i][c] : x[2 + i][c], 2);
      pair[0][i][c] = is_behind ? other : own;
      pair[1][i][c] = is_behind ? own : other;
    }
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    float half[4];
    lf_exchange_columns(pair[k], t, half);
#pragma unroll
    for (int c = 0; c < 4; ++c) y[k * 4 + c] = half[c];
  }
}
LF_INLINE int lf_warp_min(int x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x = min(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}

// As lf_two_bf16, but the rest may be 0 or negative. The first is not 0 where the probability is
// not.
LF_INLINE void lf_two_f16(float p, float q, uint32_t& high, uint32_t& low) {
  const uint32_t nearest = lf_pair_f16(p, q);
  high = nearest | ((nearest & 0x7fffu) == 0 & p != 0) |
         (uint32_t)((nearest & 0x7fff0000u) == 0 & q != 0) << 16;
  low =
      lf_pair_f16(p - lf_f32_from_f16((uint16_t)high), q - lf_f32_from_f16((uint16_t)(high >> 16)));
}
