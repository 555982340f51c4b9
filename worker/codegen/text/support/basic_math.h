// abs, sign, square roots and roundings: functions that cost an instruction or two.
#pragma once

#include "worker/codegen/text/support/language.h"

LF_INLINE float lf_abs_f32(float x) { return __builtin_fabsf(x); }
LF_INLINE double lf_abs_f64(double x) { return __builtin_fabs(x); }
LF_INLINE float lf_sign_f32(float x) { return (float)((x > 0) - (x < 0)); }
LF_INLINE double lf_sign_f64(double x) { return (double)((x > 0) - (x < 0)); }
LF_INLINE _Bool lf_isnan_f32(float x) { return x != x; }
LF_INLINE _Bool lf_isnan_f64(double x) { return x != x; }
LF_INLINE _Bool lf_isinf_f32(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
LF_INLINE _Bool lf_isinf_f64(double x) { return __builtin_fabs(x) == __builtin_inf(); }
LF_INLINE float lf_copysign_f32(float x, float s) {
  return lf_f32_bits((lf_bits_f32(x) & 0x7fffffffu) | (lf_bits_f32(s) & 0x80000000u));
}
LF_INLINE double lf_copysign_f64(double x, double s) { return __builtin_copysign(x, s); }
LF_INLINE float lf_recip_f32(float x) { return 1.0f / x; }
LF_INLINE double lf_recip_f64(double x) { return 1.0 / x; }
LF_INLINE float lf_sqrt_f32(float x) { return __builtin_sqrtf(x); }
LF_INLINE double lf_sqrt_f64(double x) { return __builtin_sqrt(x); }
LF_INLINE float lf_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
LF_INLINE double lf_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }
LF_INLINE float lf_floor_f32(float x) { return __builtin_floorf(x); }
LF_INLINE double lf_floor_f64(double x) { return __builtin_floor(x); }
LF_INLINE float lf_ceil_f32(float x) { return __builtin_ceilf(x); }
LF_INLINE double lf_ceil_f64(double x) { return __builtin_ceil(x); }
LF_INLINE float lf_trunc_f32(float x) { return __builtin_truncf(x); }
LF_INLINE double lf_trunc_f64(double x) { return __builtin_trunc(x); }
LF_INLINE float lf_round_f32(float x) { return __builtin_rintf(x); }
LF_INLINE double lf_round_f64(double x) { return __builtin_rint(x); }
