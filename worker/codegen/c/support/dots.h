// Dot products of rows that are read once, such as those of weights. What comes two KiB later is
// fetched ahead of `b`: many processors fetch too little of rows by themselves.
#pragma once

#include "worker/codegen/c/support/transpose.h"
#include "worker/codegen/text/support/number.h"

typedef uint16_t lf_uint16_t4 __attribute__((vector_size(8), aligned(2), may_alias));
typedef uint16_t lf_uint16_t8 __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint16_t lf_uint16_t16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef short lf_int16_t8 __attribute__((vector_size(16), aligned(2), may_alias));
typedef short lf_int16_t16 __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint32_t lf_uint32_t4 __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint32_t lf_uint32_t8 __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint32_t lf_uint32_t16 __attribute__((vector_size(64), aligned(2), may_alias));
#define LF_AHEAD_BYTES 2048
LF_INLINE void lf_fetch_ahead(const void* from) {
  __builtin_prefetch((const char*)from + LF_AHEAD_BYTES, 0, 3);
}
// By halves, which compilers do not come to by themselves.
LF_INLINE float lf_sum_lanes8(lf_float8 v) {
  lf_float4 q =
      __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
  return (q[0] + q[2]) + (q[1] + q[3]);
}
#define LF_WIDEN_BF16(n)                                                                       \
  LF_INLINE lf_float##n lf_widen##n##_bf16(const uint16_t* from) {                             \
    return (lf_float##n)(__builtin_convertvector(*(const lf_uint16_t##n*)from, lf_uint32_t##n) \
                         << 16);                                                               \
  }
// Element by element, which processors without an instruction for it compute from the bits.
#define LF_WIDEN_F16(n)                                             \
  LF_INLINE lf_float##n lf_widen##n##_f16(const uint16_t* from) {   \
    lf_float##n wide;                                               \
    for (int i = 0; i < n; ++i) wide[i] = lf_f32_from_f16(from[i]); \
    return wide;                                                    \
  }
LF_WIDEN_BF16(4)
LF_WIDEN_BF16(8)
LF_WIDEN_BF16(16)
#if defined(__F16C__)
LF_INLINE lf_float4 lf_widen4_f16(const uint16_t* from) {
  lf_int16_t8 four = {0};
  __builtin_memcpy(&four, from, 8);
  return (lf_float4)__builtin_ia32_vcvtph2ps(four);
}
LF_INLINE lf_float8 lf_widen8_f16(const uint16_t* from) {
  return (lf_float8)__builtin_ia32_vcvtph2ps256(*(const lf_int16_t8*)from);
}
#else
LF_WIDEN_F16(4)
LF_WIDEN_F16(8)
#endif
#if defined(__AVX512F__)
LF_INLINE lf_float16 lf_widen16_f16(const uint16_t* from) {
  const lf_float16 none = {0};
  return __builtin_ia32_vcvtph2ps512_mask(*(const lf_int16_t16*)from, none, 0xffff, 4);
}
#else
LF_WIDEN_F16(16)
#endif
LF_FUNCTION float lf_dot_f32_f32(const float* a, const float* b, int64_t n) {
  lf_float8 r[4] = {{0}, {0}, {0}, {0}};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    lf_fetch_ahead(b + k);
    lf_fetch_ahead(b + k + 16);
    for (int i = 0; i < 4; ++i) {
      r[i] += *(const lf_float8*)(a + k + 8 * i) * *(const lf_float8*)(b + k + 8 * i);
    }
  }
  float sum = lf_sum_lanes8((r[0] + r[1]) + (r[2] + r[3]));
  for (; k < n; ++k) sum = lf_sum_float(sum, a[k] * b[k]);
  return sum;
}
#define LF_DOT_F32(half)                                                              \
  LF_FUNCTION float lf_dot_f32_##half(const float* a, const uint16_t* b, int64_t n) { \
    lf_float8 r[4] = {{0}, {0}, {0}, {0}};                                            \
    int64_t k = 0;                                                                    \
    for (; k + 32 <= n; k += 32) {                                                    \
      lf_fetch_ahead(b + k);                                                          \
      for (int i = 0; i < 4; ++i) {                                                   \
        r[i] += *(const lf_float8*)(a + k + 8 * i) * lf_widen8_##half(b + k + 8 * i); \
      }                                                                               \
    }                                                                                 \
    float sum = lf_sum_lanes8((r[0] + r[1]) + (r[2] + r[3]));                         \
    for (; k < n; ++k) sum = lf_sum_float(sum, a[k] * lf_f32_from_##half(b[k]));      \
    return sum;                                                                       \
  }
LF_DOT_F32(bf16)
LF_DOT_F32(f16)
LF_FUNCTION float lf_dot_f16_f16(const uint16_t* a, const uint16_t* b, int64_t n) {
  lf_float8 r[4] = {{0}, {0}, {0}, {0}};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    lf_fetch_ahead(b + k);
    for (int i = 0; i < 4; ++i) r[i] += lf_widen8_f16(a + k + 8 * i) * lf_widen8_f16(b + k + 8 * i);
  }
  float sum = lf_sum_lanes8((r[0] + r[1]) + (r[2] + r[3]));
  for (; k < n; ++k) sum = lf_sum_float(sum, lf_f32_from_f16(a[k]) * lf_f32_from_f16(b[k]));
  return sum;
}
