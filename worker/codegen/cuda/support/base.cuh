// What all CUDA support code builds on. It includes nothing, so that NVRTC is quick; under
// LF_EMULATED vector types and intrinsics are there already.
#pragma once

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
#ifndef INT64_MAX
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 9223372036854775807L
#define INT64_MIN (-INT64_MAX - 1)
#endif

#ifndef LF_EMULATED
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)
#define __builtin_fabsf fabsf
#define __builtin_sqrtf sqrtf
#define __builtin_floorf floorf
#define __builtin_ceilf ceilf
#define __builtin_truncf truncf
#define __builtin_rintf rintf
#define __builtin_fabs fabs
#define __builtin_sqrt sqrt
#define __builtin_floor floor
#define __builtin_ceil ceil
#define __builtin_trunc trunc
#define __builtin_rint rint
#define __builtin_copysign copysign
#define __builtin_asinf asinf
#define __builtin_acosf acosf
#define __builtin_atanf atanf
#define __builtin_asinhf asinhf
#define __builtin_acoshf acoshf
#define __builtin_atanhf atanhf
#define __builtin_erfcf erfcf
// lgammaf is off by many units in the last place beside its roots.
#define __builtin_lgammaf(x) ((float)lgamma((double)(x)))
#define __builtin_fmodf fmodf
#define __builtin_powf powf
#define __builtin_atan2f atan2f
#define __builtin_hypotf hypotf
#define __builtin_nextafterf nextafterf
#define __builtin_expf expf
#define __builtin_exp2f exp2f
#define __builtin_expm1f expm1f
#define __builtin_logf logf
#define __builtin_log2f log2f
#define __builtin_log10f log10f
#define __builtin_log1pf log1pf
#define __builtin_sinf sinf
#define __builtin_cosf cosf
#define __builtin_tanf tanf
#define __builtin_sinhf sinhf
#define __builtin_coshf coshf
#define __builtin_tanhf tanhf
#define __builtin_erff erff
#define __builtin_exp exp
#define __builtin_exp2 exp2
#define __builtin_expm1 expm1
#define __builtin_log log
#define __builtin_log2 log2
#define __builtin_log10 log10
#define __builtin_log1p log1p
#define __builtin_sin sin
#define __builtin_cos cos
#define __builtin_tan tan
#define __builtin_asin asin
#define __builtin_acos acos
#define __builtin_atan atan
#define __builtin_sinh sinh
#define __builtin_cosh cosh
#define __builtin_tanh tanh
#define __builtin_asinh asinh
#define __builtin_acosh acosh
#define __builtin_atanh atanh
#define __builtin_erf erf
#define __builtin_erfc erfc
#define __builtin_lgamma lgamma
#define __builtin_fmod fmod
#define __builtin_pow pow
#define __builtin_atan2 atan2
#define __builtin_hypot hypot
#define __builtin_nextafter nextafter
#endif

#define _Bool bool
#define LF_INLINE static __device__ __forceinline__
#define LF_FUNCTION static __device__
#define LF_METHOD __device__ __forceinline__
#define LF_VECTOR_LOOP(width, unroll)

LF_INLINE float lf_f32_bits(uint32_t b) { return __uint_as_float(b); }
LF_INLINE uint32_t lf_bits_f32(float f) { return __float_as_uint(f); }
LF_INLINE double lf_f64_bits(uint64_t b) { return __longlong_as_double((long long)b); }
LF_INLINE uint64_t lf_bits_f64(double f) { return (uint64_t)__double_as_longlong(f); }

// Out of range and NaN are the least integer, as processors have it; the device's own conversion
// gives the greatest for what is too large, and 0 for NaN.
#define LF_INT_FROM_FLOAT(I, T, F, S, END, LEAST) \
  LF_INLINE T lf_##I##_from_##S(F x) { return x < END ? (T)x : LEAST; }
LF_INT_FROM_FLOAT(i32, int32_t, float, f32, 0x1p31f, INT32_MIN)
LF_INT_FROM_FLOAT(i32, int32_t, double, f64, 0x1p31, INT32_MIN)
LF_INT_FROM_FLOAT(i64, int64_t, float, f32, 0x1p63f, INT64_MIN)
LF_INT_FROM_FLOAT(i64, int64_t, double, f64, 0x1p63, INT64_MIN)

#if !defined(LF_EMULATED) && __CUDA_ARCH__ >= 800
#define LF_ROUNDS_BF16
LF_INLINE uint16_t lf_bf16_from_f32(float f) {
  // The upper one of a pair: the conversion of one alone is slower. Widened again it is the pair
  // itself, because the lower one is 0.
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(f), "f"(0.0f));
  __builtin_assume((r & 0xffffu) == 0);
  return (uint16_t)(r >> 16);
}
#endif
