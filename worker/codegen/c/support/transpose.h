// SIMD vectors, and squares that are transposed in vector registers.
#pragma once

#include "worker/codegen/c/support/base.h"

typedef float lf_float16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float lf_float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float lf_float4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double lf_double8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double lf_double4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double lf_double2 __attribute__((vector_size(16), aligned(8), may_alias));
// The first `rows` rows of the transposed n x n square, by log2(n) perfect shuffles of its rows.
#define LF_TURN(T, n, ...)                                                                   \
  LF_INLINE void lf_turn_##T##n(const T* restrict from, int64_t from_stride, T* restrict to, \
                                int64_t to_stride, int64_t rows) {                           \
    lf_##T##n r[n], q[n];                                                                    \
    for (int i = 0; i < n; ++i) r[i] = *(const lf_##T##n*)(from + i * from_stride);          \
    for (int step = 1; step < n; step *= 2) {                                                \
      for (int i = 0; i < n / 2; ++i) {                                                      \
        q[2 * i] = __builtin_shufflevector(r[i], r[i + n / 2], __VA_ARGS__);                 \
        q[2 * i + 1] = __builtin_shufflevector(r[i], r[i + n / 2], LF_HIGH##n);              \
      }                                                                                      \
      for (int i = 0; i < n; ++i) r[i] = q[i];                                               \
    }                                                                                        \
    if (rows == n) {                                                                         \
      for (int i = 0; i < n; ++i) *(lf_##T##n*)(to + i * to_stride) = r[i];                  \
    } else {                                                                                 \
      for (int i = 0; i < n; ++i) *(lf_##T##n*)(q + i) = r[i];                               \
      for (int i = 0; i < rows; ++i) *(lf_##T##n*)(to + i * to_stride) = q[i];               \
    }                                                                                        \
  }
#define LF_HIGH2 1, 3
#define LF_HIGH4 2, 6, 3, 7
#define LF_HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define LF_HIGH16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
LF_TURN(double, 2, 0, 2)
LF_TURN(float, 4, 0, 4, 1, 5)
LF_TURN(double, 4, 0, 4, 1, 5)
LF_TURN(float, 8, 0, 8, 1, 9, 2, 10, 3, 11)
LF_TURN(double, 8, 0, 8, 1, 9, 2, 10, 3, 11)
LF_TURN(float, 16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
