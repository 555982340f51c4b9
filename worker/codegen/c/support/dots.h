// Dot products of rows that are read once, such as those of weights. What comes two KiB later is
// fetched ahead of `b`: many processors fetch too little of rows by themselves.
#pragma once

#include "worker/codegen/c/support/transpose.h"
#include "worker/codegen/text/support/number.h"

typedef uint16_t lf_uint16_t4 __attribute__((vector_size(8), aligned(2), may_alias));
typedef uint16_t lf_uint16_t8 __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint16_t lf_uint16_t16 __attribute__((vector_size(32), aligned(2), may_alias));
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
#define LF_WIDEN(n)                                                                            \
  LF_INLINE lf_float##n lf_widen##n##_bf16(const uint16_t* from) {                             \
    return (lf_float##n)(__builtin_convertvector(*(const lf_uint16_t##n*)from, lf_uint32_t##n) \
                         << 16);                                                               \
  }
LF_WIDEN(4)
LF_WIDEN(8)
LF_WIDEN(16)
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
LF_FUNCTION float lf_dot_f32_bf16(const float* a, const uint16_t* b, int64_t n) {
  lf_float8 r[4] = {{0}, {0}, {0}, {0}};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    lf_fetch_ahead(b + k);
    for (int i = 0; i < 4; ++i) {
      r[i] += *(const lf_float8*)(a + k + 8 * i) * lf_widen8_bf16(b + k + 8 * i);
    }
  }
  float sum = lf_sum_lanes8((r[0] + r[1]) + (r[2] + r[3]));
  for (; k < n; ++k) sum = lf_sum_float(sum, a[k] * lf_f32_from_bf16(b[k]));
  return sum;
}
