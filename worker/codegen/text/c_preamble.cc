#include "worker/codegen/text/c_preamble.h"

namespace worker {

// Long because it is one piece of C text.
std::string_view c_number_preamble() {
  return R"C(
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
  return r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0);
}
LF_INLINE int64_t lf_clamp_index(int64_t i, int64_t size) {
  i = i < size ? i : size - 1;
  return i < 0 ? 0 : i;
}

#define LF_INTEGER(T, U, S, LOW)                                                              \
  LF_INLINE T lf_abs_##S(T x) { return (T)(x < 0 ? -(U)x : (U)x); }                           \
  LF_INLINE T lf_sign_##S(T x) { return (T)((x > 0) - (x < 0)); }                             \
  LF_INLINE T lf_min_##S(T a, T b) { return a < b ? a : b; }                                  \
  LF_INLINE T lf_max_##S(T a, T b) { return a > b ? a : b; }                                  \
  LF_INLINE T lf_div_##S(T a, T b) {                                                          \
    return b == 0 ? (T)0 : b == (T)-1 && LOW != 0 ? (T)-(U)a : (T)(a / b);                    \
  }                                                                                           \
  LF_INLINE T lf_fmod_##S(T a, T b) {                                                         \
    return b == 0 || (b == (T)-1 && LOW != 0) ? (T)0 : (T)(a % b);                            \
  }                                                                                           \
  LF_INLINE T lf_mod_##S(T a, T b) {                                                          \
    T r = lf_fmod_##S(a, b);                                                                  \
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                     \
  }                                                                                           \
  LF_INLINE T lf_floordiv_##S(T a, T b) {                                                     \
    T q = lf_div_##S(a, b), r = lf_fmod_##S(a, b);                                            \
    return r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q;                                     \
  }                                                                                           \
  LF_INLINE T lf_pow_##S(T a, T b) {                                                          \
    if (b < 0) return a == 1 ? (T)1 : a == (T)-1 && LOW != 0 ? (T)((b & 1) ? -1 : 1) : (T)0;  \
    U base = (U)a, r = 1;                                                                     \
    for (U e = (U)b; e != 0; e >>= 1) {                                                       \
      if (e & 1) r = (U)(r * base);                                                           \
      base = (U)(base * base);                                                                \
    }                                                                                         \
    return (T)r;                                                                              \
  }                                                                                           \
  LF_INLINE T lf_shl_##S(T a, T b) {                                                          \
    return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((U)a << b);                          \
  }                                                                                           \
  LF_INLINE T lf_shr_##S(T a, T b) {                                                          \
    return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);              \
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
#define i8_limit 127
#define i16_limit 32767
#define i32_limit 2147483647
#define i64_limit INT64_MAX
#define u8_limit 255
)C";
}

std::string_view c_basic_math() {
  return R"C(
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
)C";
}

// Long because it is one piece of C text.
std::string_view c_library_math() {
  return R"C(
#define LF_LIBM1(name, fn)                                                      \
  LF_INLINE float lf_##name##_f32(float x) { return __builtin_##fn##f(x); }
#define LF_LIBM1D(name, fn)                                                     \
  LF_INLINE double lf_##name##_f64(double x) { return __builtin_##fn(x); }
#define LF_LIBM2(name, fn)                                                      \
  LF_INLINE float lf_##name##_f32(float a, float b) { return __builtin_##fn##f(a, b); } \
  LF_INLINE double lf_##name##_f64(double a, double b) { return __builtin_##fn(a, b); }
LF_LIBM1(asin, asin) LF_LIBM1(acos, acos) LF_LIBM1(atan, atan) LF_LIBM1(asinh, asinh)
LF_LIBM1(acosh, acosh) LF_LIBM1(atanh, atanh) LF_LIBM1(erfc, erfc) LF_LIBM1(lgamma, lgamma)
LF_LIBM1D(exp, exp) LF_LIBM1D(exp2, exp2) LF_LIBM1D(expm1, expm1) LF_LIBM1D(log, log)
LF_LIBM1D(log2, log2) LF_LIBM1D(log10, log10) LF_LIBM1D(log1p, log1p) LF_LIBM1D(sin, sin)
LF_LIBM1D(cos, cos) LF_LIBM1D(tan, tan) LF_LIBM1D(asin, asin) LF_LIBM1D(acos, acos)
LF_LIBM1D(atan, atan) LF_LIBM1D(sinh, sinh) LF_LIBM1D(cosh, cosh) LF_LIBM1D(tanh, tanh)
LF_LIBM1D(asinh, asinh) LF_LIBM1D(acosh, acosh) LF_LIBM1D(atanh, atanh) LF_LIBM1D(erf, erf)
LF_LIBM1D(erfc, erfc) LF_LIBM1D(lgamma, lgamma)
LF_LIBM2(fmod, fmod) LF_LIBM2(pow, pow) LF_LIBM2(atan2, atan2) LF_LIBM2(hypot, hypot)
LF_LIBM2(nextafter, nextafter)
LF_INLINE double lf_sigmoid_f64(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }

#define LF_DIVISION(T, S)                                                      \
  LF_INLINE T lf_mod_##S(T a, T b) {                                           \
    T r = lf_fmod_##S(a, b);                                                   \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                           \
  }                                                                            \
  LF_INLINE T lf_floordiv_##S(T a, T b) {                                      \
    if (b == 0) return a / b;                                                  \
    T r = lf_fmod_##S(a, b), q = (a - r) / b;                                  \
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;                                  \
    if (q == 0) return lf_copysign_##S(0, a / b);                              \
    T f = lf_floor_##S(q);                                                     \
    return q - f > (T)0.5 ? f + 1 : f;                                         \
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
)C";
}

}  // namespace worker
