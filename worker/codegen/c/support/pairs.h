// Products of pairs of bfloat16, for processors with AVX512_BF16. vdpbf16ps rounds both products
// to nearest float32 as it adds them, and reads denormals as zeros.
#pragma once

#include "worker/codegen/c/support/dots.h"

typedef uint32_t lf_bf16_pair __attribute__((aligned(2), may_alias));
LF_TURN(uint32_t, 16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
// Adds the products of a pair with 16 pairs.
LF_INLINE lf_float16 lf_add_pairs(lf_float16 sum, uint32_t pair, lf_uint32_t16 pairs) {
  lf_uint32_t16 all = pair + (lf_uint32_t16){0};
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(all), "v"(pairs));
  return sum;
}
LF_INLINE lf_float16 lf_dot_step(lf_float16 sum, const uint16_t* a, const uint16_t* b) {
  __asm__("vdpbf16ps %2, %1, %0"
          : "+v"(sum)
          : "v"(*(const lf_uint32_t16*)a), "m"(*(const lf_uint32_t16*)b));
  return sum;
}
// By halves, which compilers do not come to by themselves.
LF_INLINE float lf_sum_lanes(lf_float16 v) {
  lf_float8 h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  lf_float4 q =
      __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
  return (q[0] + q[2]) + (q[1] + q[3]);
}
// The sum of products of n neighbours.
LF_FUNCTION float lf_dot_bf16_bf16(const uint16_t* a, const uint16_t* b, int64_t n) {
  lf_float16 r[4] = {{0}, {0}, {0}, {0}};
  int64_t k = 0;
  for (; k + 128 <= n; k += 128) {
    for (int i = 0; i < 4; ++i) {
      lf_fetch_ahead(b + k + 32 * i);
      r[i] = lf_dot_step(r[i], a + k + 32 * i, b + k + 32 * i);
    }
  }
  for (; k + 32 <= n; k += 32) r[0] = lf_dot_step(r[0], a + k, b + k);
  float sum = lf_sum_lanes((r[0] + r[1]) + (r[2] + r[3]));
  for (; k < n; ++k) sum = lf_sum_float(sum, lf_f32_from_bf16(a[k]) * lf_f32_from_bf16(b[k]));
  return sum;
}
