// Functions that the C library computes, and functions built on them: float64 throughout, and
// those functions of float32 that are rare.
#pragma once

#include "worker/codegen/text/support/basic_math.h"
#include "worker/codegen/text/support/number.h"

#define LF_LIBM1(name, fn) \
  LF_INLINE float lf_##name##_f32(float x) { return __builtin_##fn##f(x); }
#define LF_LIBM1D(name, fn) \
  LF_INLINE double lf_##name##_f64(double x) { return __builtin_##fn(x); }
#define LF_LIBM2(name, fn)                                                              \
  LF_INLINE float lf_##name##_f32(float a, float b) { return __builtin_##fn##f(a, b); } \
  LF_INLINE double lf_##name##_f64(double a, double b) { return __builtin_##fn(a, b); }
LF_LIBM1(asin, asin)
LF_LIBM1(acos, acos)
LF_LIBM1(atan, atan)
LF_LIBM1(asinh, asinh)
LF_LIBM1(acosh, acosh)
LF_LIBM1(atanh, atanh)
LF_LIBM1(erfc, erfc)
LF_LIBM1(lgamma, lgamma)
LF_LIBM1D(exp, exp)
LF_LIBM1D(exp2, exp2)
LF_LIBM1D(expm1, expm1)
LF_LIBM1D(log, log)
LF_LIBM1D(log2, log2)
LF_LIBM1D(log10, log10)
LF_LIBM1D(log1p, log1p)
LF_LIBM1D(sin, sin)
LF_LIBM1D(cos, cos)
LF_LIBM1D(tan, tan)
LF_LIBM1D(asin, asin)
LF_LIBM1D(acos, acos)
LF_LIBM1D(atan, atan)
LF_LIBM1D(sinh, sinh)
LF_LIBM1D(cosh, cosh)
LF_LIBM1D(tanh, tanh)
LF_LIBM1D(asinh, asinh)
LF_LIBM1D(acosh, acosh)
LF_LIBM1D(atanh, atanh)
LF_LIBM1D(erf, erf)
LF_LIBM1D(erfc, erfc)
LF_LIBM1D(lgamma, lgamma)
LF_LIBM2(fmod, fmod)
LF_LIBM2(pow, pow)
LF_LIBM2(atan2, atan2)
LF_LIBM2(hypot, hypot)
LF_LIBM2(nextafter, nextafter)
LF_INLINE double lf_sigmoid_f64(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }

#define LF_DIVISION(T, S)                            \
  LF_INLINE T lf_mod_##S(T a, T b) {                 \
    T r = lf_fmod_##S(a, b);                         \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r; \
  }                                                  \
  LF_INLINE T lf_floordiv_##S(T a, T b) {            \
    if (b == 0) return a / b;                        \
    T r = lf_fmod_##S(a, b), q = (a - r) / b;        \
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;        \
    if (q == 0) return lf_copysign_##S(0, a / b);    \
    T f = lf_floor_##S(q);                           \
    return q - f > (T)0.5 ? f + 1 : f;               \
  }
LF_DIVISION(float, f32)
LF_DIVISION(double, f64)

// Reflection, recurrence up to 10, then the asymptotic series.
LF_FUNCTION double lf_digamma_f64(double x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  double result = 0;
  if (x < 0) {
    if (x == __builtin_trunc(x)) return __builtin_nan("");
    double fraction = x - __builtin_trunc(x);
    result = -3.14159265358979323846 / __builtin_tan(3.14159265358979323846 * fraction);
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  double z = 1 / (x * x), y = 8.33333333333333333333e-2;
  y = y * z - 2.10927960927960927961e-2;
  y = y * z + 7.57575757575757575758e-3;
  y = y * z - 4.16666666666666666667e-3;
  y = y * z + 3.96825396825396825397e-3;
  y = y * z - 8.33333333333333333333e-3;
  y = y * z + 8.33333333333333333333e-2;
  return result + __builtin_log(x) - 0.5 / x - y * z;
}
LF_FUNCTION float lf_digamma_f32(float x) { return (float)lf_digamma_f64(x); }

// A rational start, then two Newton steps.
LF_FUNCTION double lf_erfinv_f64(double y) {
  double a = __builtin_fabs(y), x;
  if (a == 1) return __builtin_copysign(__builtin_inf(), y);
  if (!(a < 1)) return __builtin_nan("");
  if (a <= 0.7) {
    double z = y * y;
    x = y * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899) /
        ((((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1);
  } else {
    double z = __builtin_sqrt(-__builtin_log((1 - a) / 2));
    x = ((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454;
    x = __builtin_copysign(x, y) / ((1.637067800 * z + 3.543889200) * z + 1);
  }
  for (int step = 0; step < 2; ++step) {
    x -= (__builtin_erf(x) - y) / (1.12837916709551257390 * __builtin_exp(-x * x));
  }
  return x;
}
LF_FUNCTION float lf_erfinv_f32(float x) { return (float)lf_erfinv_f64(x); }
LF_INLINE double lf_log_add_exp(double a, double b) {
  double high = lf_max_f64(a, b), low = lf_min_f64(a, b);
  if (high == low && !(__builtin_fabs(high) < __builtin_inf())) return high;
  return high + __builtin_log1p(__builtin_exp(low - high));
}
