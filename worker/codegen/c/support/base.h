// What all C support code builds on: macros for functions and loops, and the bits of floats.
#pragma once

#include <stdint.h>
#define LF_INLINE static inline __attribute__((always_inline))
#define LF_FUNCTION static
#define LF_PRAGMA_(x) _Pragma(#x)
#define LF_PRAGMA(x) LF_PRAGMA_(x)

// A loop without dependences between its steps: SIMD width in elements (0 = the compiler's choice)
// and how many vectors a step handles.
#if defined(__clang__)
#define LF_VECTOR_LOOP(width, unroll) \
  LF_PRAGMA(clang loop vectorize(assume_safety) LF_WIDTH_##width LF_COUNT_##unroll)
#define LF_WIDTH_0
#define LF_WIDTH_4 vectorize_width(4)
#define LF_WIDTH_8 vectorize_width(8)
#define LF_WIDTH_16 vectorize_width(16)
#define LF_COUNT_1
#define LF_COUNT_2 interleave_count(2)
#define LF_COUNT_4 interleave_count(4)
#define LF_COUNT_8 interleave_count(8)
#define LF_UNROLL(n) LF_PRAGMA(clang loop unroll_count(n))
#else
#define LF_VECTOR_LOOP(width, unroll) LF_COUNT_##unroll LF_WIDTH_##width
#define LF_WIDTH_0 LF_PRAGMA(GCC ivdep)
#define LF_WIDTH_4 LF_PRAGMA(GCC ivdep)
#define LF_WIDTH_8 LF_PRAGMA(GCC ivdep)
#define LF_WIDTH_16 LF_PRAGMA(GCC ivdep)
#define LF_COUNT_1
#define LF_COUNT_2 LF_PRAGMA(GCC unroll 2)
#define LF_COUNT_4 LF_PRAGMA(GCC unroll 4)
#define LF_COUNT_8 LF_PRAGMA(GCC unroll 8)
#define LF_UNROLL(n) LF_PRAGMA(GCC unroll n)
#endif

#define LF_LIKELY(x) __builtin_expect(!!(x), 1)

LF_INLINE float lf_f32_bits(uint32_t b) {
  float f;
  __builtin_memcpy(&f, &b, 4);
  return f;
}
LF_INLINE uint32_t lf_bits_f32(float f) {
  uint32_t b;
  __builtin_memcpy(&b, &f, 4);
  return b;
}

// The processor's truncation.
#define lf_i32_from_f32(x) ((int32_t)(x))
#define lf_i32_from_f64(x) ((int32_t)(x))
#define lf_i64_from_f32(x) ((int64_t)(x))
#define lf_i64_from_f64(x) ((int64_t)(x))

// Sums whose terms may come in any order, so that a vector's lanes are added pair by pair at the
// end.
#if defined(__clang__)
#define LF_LOOSE LF_PRAGMA(clang fp reassociate(on))
#else
#define LF_LOOSE
#endif
#define LF_SUM(T) \
  LF_INLINE T lf_sum_##T(T total, T x) { LF_LOOSE return total + x; }
LF_SUM(float)
LF_SUM(double)

LF_INLINE double lf_f64_bits(uint64_t b) {
  double f;
  __builtin_memcpy(&f, &b, 8);
  return f;
}
LF_INLINE uint64_t lf_bits_f64(double f) {
  uint64_t b;
  __builtin_memcpy(&b, &f, 8);
  return b;
}
