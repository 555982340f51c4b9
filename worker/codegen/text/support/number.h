// Numbers in kernels of every target: element conversions, integer arithmetic, comparisons that
// propagate NaN, and ordered keys.
#pragma once

#include "worker/codegen/text/support/language.h"

LF_INLINE float lf_f32_from_bf16(uint16_t b) { return lf_f32_bits((uint32_t)b << 16); }
#ifndef LF_ROUNDS_BF16
LF_INLINE uint16_t lf_bf16_from_f32(float f) {
  uint32_t b = lf_bits_f32(f);
  uint32_t r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return (uint16_t)(f != f ? 0x7fc0u : r);
}
#endif
// Of numbers that lose nothing by it.
LF_INLINE uint16_t lf_bf16_from_exact(float f) { return (uint16_t)(lf_bits_f32(f) >> 16); }
LF_INLINE float lf_f32_from_f16(uint16_t h) {
  uint32_t sign = ((uint32_t)h & 0x8000u) << 16, magnitude = (uint32_t)h & 0x7fffu;
  uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
  uint32_t small = lf_bits_f32((float)(int32_t)magnitude * 0x1p-24f);
  return lf_f32_bits(sign | (magnitude < 0x400u ? small : normal));
}
LF_INLINE uint16_t lf_f16_from_f32(float f) {
  uint32_t b = lf_bits_f32(f), sign = (b >> 16) & 0x8000u, m = b & 0x7fffffffu;
  uint32_t normal = (m + 0xfffu + ((m >> 13) & 1u) - 0x38000000u) >> 13;
  uint32_t small = lf_bits_f32(lf_f32_bits(m) + 0.5f) - 0x3f000000u;
  uint32_t r = m < 0x38800000u ? small : normal;
  r = m >= 0x477ff000u ? 0x7c00u : r;
  r = m > 0x7f800000u ? 0x7e00u : r;
  return (uint16_t)(sign | r);
}
LF_INLINE float lf_f32_from_c64(uint64_t c) { return lf_f32_bits((uint32_t)c); }
LF_INLINE uint64_t lf_c64_from_f32(float f) { return lf_bits_f32(f); }
LF_INLINE _Bool lf_nonzero_c64(uint64_t c) { return (c & 0x7fffffff7fffffffUL) != 0; }

LF_INLINE int64_t lf_floordiv_index(int64_t a, int64_t b) {
  if (b == 0) return 0;
  int64_t q = a / b;
  return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
LF_INLINE int64_t lf_mod_index(int64_t a, int64_t b) {
  if (b == 0) return 0;
  int64_t r = a % b;
  return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0);
}
LF_INLINE int64_t lf_clamp_index(int64_t i, int64_t size) {
  i = i < size ? i : size - 1;
  return i < 0 ? 0 : i;
}

#define LF_INTEGER(T, U, S, LOW)                                                             \
  LF_INLINE T lf_abs_##S(T x) { return (T)(x < 0 ? -(U)x : (U)x); }                          \
  LF_INLINE T lf_sign_##S(T x) { return (T)((x > 0) - (x < 0)); }                            \
  LF_INLINE T lf_min_##S(T a, T b) { return a < b ? a : b; }                                 \
  LF_INLINE T lf_max_##S(T a, T b) { return a > b ? a : b; }                                 \
  LF_INLINE T lf_div_##S(T a, T b) {                                                         \
    return b == 0 ? (T)0 : b == (T)-1 && LOW != 0 ? (T) - (U)a : (T)(a / b);                 \
  }                                                                                          \
  LF_INLINE T lf_fmod_##S(T a, T b) {                                                        \
    return b == 0 || (b == (T)-1 && LOW != 0) ? (T)0 : (T)(a % b);                           \
  }                                                                                          \
  LF_INLINE T lf_mod_##S(T a, T b) {                                                         \
    T r = lf_fmod_##S(a, b);                                                                 \
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                    \
  }                                                                                          \
  LF_INLINE T lf_floordiv_##S(T a, T b) {                                                    \
    T q = lf_div_##S(a, b), r = lf_fmod_##S(a, b);                                           \
    return r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q;                                    \
  }                                                                                          \
  LF_INLINE T lf_pow_##S(T a, T b) {                                                         \
    if (b < 0) return a == 1 ? (T)1 : a == (T)-1 && LOW != 0 ? (T)((b & 1) ? -1 : 1) : (T)0; \
    U base = (U)a, r = 1;                                                                    \
    for (U e = (U)b; e != 0; e >>= 1) {                                                      \
      if (e & 1) r = (U)(r * base);                                                          \
      base = (U)(base * base);                                                               \
    }                                                                                        \
    return (T)r;                                                                             \
  }                                                                                          \
  LF_INLINE T lf_shl_##S(T a, T b) {                                                         \
    return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((U)a << b);                         \
  }                                                                                          \
  LF_INLINE T lf_shr_##S(T a, T b) {                                                         \
    return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);             \
  }
LF_INTEGER(int8_t, uint32_t, i8, 1)
LF_INTEGER(int16_t, uint32_t, i16, 1)
LF_INTEGER(int32_t, uint32_t, i32, 1)
LF_INTEGER(int64_t, uint64_t, i64, 1)
LF_INTEGER(uint8_t, uint32_t, u8, 0)
LF_INLINE _Bool lf_shl_bool(_Bool a, _Bool b) { return (a << b) != 0; }
LF_INLINE _Bool lf_shr_bool(_Bool a, _Bool b) { return a >> b; }

// NaN wins.
LF_INLINE float lf_min_f32(float a, float b) { return ((a < b) | (a != a)) ? a : b; }
LF_INLINE float lf_max_f32(float a, float b) { return ((a > b) | (a != a)) ? a : b; }
LF_INLINE double lf_min_f64(double a, double b) { return ((a < b) | (a != a)) ? a : b; }
LF_INLINE double lf_max_f64(double a, double b) { return ((a > b) | (a != a)) ? a : b; }

// Integers in the order of the floats, NaN above all (below all): maxima of these vectorise.
LF_INLINE int32_t lf_top_key_f32(float x) {
  int32_t b = (int32_t)lf_bits_f32(x);
  return x != x ? INT32_MAX : b ^ ((b >> 31) & 0x7fffffff);
}
LF_INLINE int32_t lf_low_key_f32(float x) {
  int32_t b = (int32_t)lf_bits_f32(x);
  return x != x ? INT32_MIN : b ^ ((b >> 31) & 0x7fffffff);
}
LF_INLINE float lf_from_key_f32(int32_t k) {
  int32_t bits = k ^ ((k >> 31) & 0x7fffffff);
  return k == INT32_MIN ? __builtin_nanf("") : lf_f32_bits((uint32_t)bits);
}
LF_INLINE int64_t lf_top_key_f64(double x) {
  int64_t b = (int64_t)lf_bits_f64(x);
  return x != x ? INT64_MAX : b ^ ((b >> 63) & INT64_MAX);
}
LF_INLINE int64_t lf_low_key_f64(double x) {
  int64_t b = (int64_t)lf_bits_f64(x);
  return x != x ? INT64_MIN : b ^ ((b >> 63) & INT64_MAX);
}
LF_INLINE double lf_from_key_f64(int64_t k) {
  return k == INT64_MIN ? __builtin_nan("") : lf_f64_bits((uint64_t)(k ^ ((k >> 63) & INT64_MAX)));
}
LF_INLINE uint64_t lf_sort_key_f32(float x) {
  return (uint32_t)lf_top_key_f32(x == 0 ? 0 : x) ^ 0x80000000u;
}
LF_INLINE uint64_t lf_sort_key_f64(double x) {
  return (uint64_t)lf_top_key_f64(x == 0 ? 0 : x) ^ 0x8000000000000000u;
}
LF_INLINE uint64_t lf_sort_key_i64(int64_t x) { return (uint64_t)x ^ 0x8000000000000000u; }

// The greatest number of each integer type.
#define i8_limit 127
#define i16_limit 32767
#define i32_limit 2147483647
#define i64_limit INT64_MAX
#define u8_limit 255
