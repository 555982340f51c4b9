// The dot product of two rows of bfloat16, where the processor has none.
#pragma once

#include "worker/codegen/c/support/dots.h"

// Of 16 neighbours those at even positions, and at odd ones, as float32.
LF_INLINE lf_float8 lf_even_bf16(lf_uint32_t8 pairs) { return (lf_float8)(pairs << 16); }
LF_INLINE lf_float8 lf_odd_bf16(lf_uint32_t8 pairs) { return (lf_float8)(pairs & 0xffff0000u); }
LF_FUNCTION float lf_dot_bf16_bf16(const uint16_t* a, const uint16_t* b, int64_t n) {
  lf_float8 r[4] = {{0}, {0}, {0}, {0}};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    lf_fetch_ahead(b + k);
    for (int i = 0; i < 2; ++i) {
      lf_uint32_t8 x = *(const lf_uint32_t8*)(a + k + 16 * i);
      lf_uint32_t8 y = *(const lf_uint32_t8*)(b + k + 16 * i);
      r[2 * i] += lf_even_bf16(x) * lf_even_bf16(y);
      r[2 * i + 1] += lf_odd_bf16(x) * lf_odd_bf16(y);
    }
  }
  float sum = lf_sum_lanes8((r[0] + r[1]) + (r[2] + r[3]));
  for (; k < n; ++k) sum = lf_sum_float(sum, lf_f32_from_bf16(a[k]) * lf_f32_from_bf16(b[k]));
  return sum;
}
