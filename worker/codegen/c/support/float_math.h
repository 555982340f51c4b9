// Elementary functions of float32, without branches and calls, so that loops around them vectorise.
// They are within 4 ulp of the exact result, erf and tanh within 8.
//
// exp: x = 2 n ln 2 + r by an addition that rounds; e^r by a polynomial; 2^n twice, so that results
// near the ends of the range round once. expm1: n ln 2 + r, and Cephes' polynomial of expf.
// log: Cephes logf. sinh by way of expm1. erf and tanh: x P(x^2) / Q(x^2) whose greatest relative
// error, 2e-8, is least for polynomials of these degrees up to where the result rounds to 1.
#pragma once

#include "worker/codegen/text/support/basic_math.h"

// e^r - 1 for |r| <= ln(2) / 2.
LF_INLINE float lf_expm1_core(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r;
}
// 2^n for -127 < n < 128, and 0 for -127.
LF_INLINE float lf_pow2_i(int32_t n) { return lf_f32_bits((uint32_t)(n + 127) << 23); }
// Added to a number, this rounds it to an integer n and leaves n + 127 in the low bits of the sum.
#define LF_ROUND_TO_POWER 12583039.0f
// 2^n from such a sum: 0 for n = -127, infinite for n = 128.
LF_INLINE float lf_pow2_rounded(float sum) { return lf_f32_bits(lf_bits_f32(sum) << 23); }
// e^r for |r| <= ln 2, of relative error 1.5e-8, and 1 for 0.
LF_INLINE float lf_exp_core(float r) {
  float p = 1.962974929e-4f;
  p = p * r + 1.410477795e-3f;
  p = p * r + 8.335934952e-3f;
  p = p * r + 4.166122898e-2f;
  p = p * r + 1.666661799e-1f;
  p = p * r + 5.000003576e-1f;
  p = p * r + 1.0f;
  return p * r + 1.0f;
}
// A product that underflows takes several times as long as one with 0, which is what the factors
// are for masked scores: n is -127.
LF_INLINE float lf_exp_f32(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -176.0f ? -176.0f : x;
  float sum = x * 0.72134752044448170f + LF_ROUND_TO_POWER;
  float n = sum - LF_ROUND_TO_POWER;
  float r = x - n * 1.38671875f;
  r = r - n * -4.24388880e-4f;
  float scale = lf_pow2_rounded(sum);
  return lf_exp_core(r) * scale * scale;
}
LF_INLINE float lf_exp2_f32(float x) {
  x = x > 129.0f ? 129.0f : x;
  x = x < -254.0f ? -254.0f : x;
  float sum = x * 0.5f + LF_ROUND_TO_POWER;
  float n = sum - LF_ROUND_TO_POWER;
  float scale = lf_pow2_rounded(sum);
  return lf_exp_core((x - 2.0f * n) * 0.693147180559945f) * scale * scale;
}
LF_INLINE float lf_expm1_f32(float x) {
  float given = x;
  x = x > 89.0f ? 89.0f : x;
  x = x < -20.0f ? -20.0f : x;
  float shifted = x * 1.44269504088896341f + 12582912.0f;
  int32_t n = (int32_t)lf_bits_f32(shifted) - 0x4b400000;
  float whole = shifted - 12582912.0f;
  float r = x - whole * 0.693359375f;
  r = r - whole * -2.12194440e-4f;
  float scale = lf_pow2_i(n - 1);
  float y = (lf_expm1_core(r) * scale + (scale - 0.5f)) * 2.0f;
  y = given > 88.8f ? __builtin_inff() : y;
  return n == 0 ? (given == 0.0f ? given : lf_expm1_core(r)) : y;
}
// The logarithm as f + e * ln 2 with f's correction apart.
#define LF_LOG_SPLIT(x)                                                     \
  float scaled = x < 0x1p-126f ? x * 0x1p23f : x;                           \
  int32_t bits = (int32_t)lf_bits_f32(scaled) - 0x3f3504f3;                 \
  float e = (float)((bits >> 23) - (x < 0x1p-126f ? 23 : 0));               \
  float f = lf_f32_bits((uint32_t)((bits & 0x7fffff) + 0x3f3504f3)) - 1.0f; \
  float z = f * f, p = 7.0376836292e-2f;                                    \
  p = p * f - 1.1514610310e-1f;                                             \
  p = p * f + 1.1676998740e-1f;                                             \
  p = p * f - 1.2420140846e-1f;                                             \
  p = p * f + 1.4249322787e-1f;                                             \
  p = p * f - 1.6668057665e-1f;                                             \
  p = p * f + 2.0000714765e-1f;                                             \
  p = p * f - 2.4999993993e-1f;                                             \
  p = p * f + 3.3333331174e-1f;                                             \
  p = p * f * z;
LF_INLINE float lf_log_ends(float x, float y) {
  y = x == __builtin_inff() ? x : y;
  y = x == 0.0f ? -__builtin_inff() : y;
  return ((x < 0.0f) | (x != x)) ? __builtin_nanf("") : y;
}
LF_INLINE float lf_log_f32(float x) {
  LF_LOG_SPLIT(x)
  p = p + e * -2.12194440e-4f - 0.5f * z;
  return lf_log_ends(x, f + p + e * 0.693359375f);
}
LF_INLINE float lf_log2_f32(float x) {
  LF_LOG_SPLIT(x)
  p = p - 0.5f * z;
  float low = p * 0.44269504088896341f + f * 0.44269504088896341f;
  return lf_log_ends(x, low + p + f + e);
}
LF_INLINE float lf_log10_f32(float x) {
  LF_LOG_SPLIT(x)
  p = p - 0.5f * z;
  float y = e * 2.48745663e-4f + (f + p) * 7.00731903e-4f;
  return lf_log_ends(x, y + (f + p) * 4.3359375e-1f + e * 3.0078125e-1f);
}
LF_INLINE float lf_log1p_f32(float x) {
  float u = 1.0f + x;
  float y = lf_log_f32(u) + (x - (u - 1.0f)) / u;
  y = ((u == __builtin_inff()) | (u == 0.0f)) ? lf_log_f32(u) : y;
  return x == 0.0f ? x : y;
}
// 1 / (1 + 2^n e^r), with e^r for |r| <= ln(2) / 2 by a polynomial of relative error 9e-8 that is 1
// for 0.
LF_INLINE float lf_sigmoid_f32(float x) {
  x = x > 88.0f ? 88.0f : x;
  x = x < -89.0f ? -89.0f : x;
  float sum = x * -1.44269504088896341f + LF_ROUND_TO_POWER;
  float n = sum - LF_ROUND_TO_POWER;
  float r = -x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 8.290272206e-3f;
  p = p * r + 4.189816117e-2f;
  p = p * r + 1.666763872e-1f;
  p = p * r + 4.999914765e-1f;
  p = p * r + 9.999997020e-1f;
  p = p * r + 1.0f;
  return 1.0f / (p * lf_pow2_rounded(sum) + 1.0f);
}
LF_INLINE float lf_sinh_f32(float x) {
  float a = __builtin_fabsf(x);
  float t = lf_expm1_f32(a), h = lf_exp_f32(0.5f * a);
  return lf_copysign_f32(a > 80.0f ? 0.5f * h * h : 0.5f * (t + t / (t + 1.0f)), x);
}
LF_INLINE float lf_cosh_f32(float x) {
  float a = __builtin_fabsf(x);
  float h = lf_exp_f32(0.5f * a), t = lf_exp_f32(a);
  return a > 80.0f ? 0.5f * h * h : 0.5f * (t + 1.0f / t);
}
LF_INLINE float lf_within_one(float y) {
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}
LF_INLINE float lf_tanh_f32(float x) {
  float s = x * x;
  s = s > 81.3604f ? 81.3604f : s;
  float p = 1.33190449e-8f;
  p = p * s + 2.05834614e-5f;
  p = p * s + 3.49403335e-3f;
  p = p * s + 1.33797169e-1f;
  p = p * s + 1.0f;
  float q = 7.76200822e-7f;
  q = q * s + 3.28309086e-4f;
  q = q * s + 2.58710686e-2f;
  q = q * s + 4.67130322e-1f;
  q = q * s + 1.0f;
  return lf_within_one(x * p / q);
}
LF_INLINE float lf_erf_f32(float x) {
  float s = x * x;
  s = s > 15.405625f ? 15.405625f : s;
  float p = 2.0419736e-6f;
  p = p * s + 2.84808289e-4f;
  p = p * s + 3.77959421e-3f;
  p = p * s + 5.27902385e-2f;
  p = p * s + 1.90783478e-1f;
  p = p * s + 1.12837915f;
  float q = 3.80040882e-5f;
  q = q * s + 1.16520914e-3f;
  q = q * s + 1.49974068e-2f;
  q = q * s + 1.14257376e-1f;
  q = q * s + 5.02410175e-1f;
  q = q * s + 1.0f;
  return lf_within_one(x * p / q);
}
