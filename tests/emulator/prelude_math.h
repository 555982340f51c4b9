// The mathematical functions and bit tricks that CUDA's compiler knows without headers.
#pragma once

#define LF_MATH1(name)            \
  extern "C" double name(double); \
  extern "C" float name##f(float);
#define LF_MATH2(name)                    \
  extern "C" double name(double, double); \
  extern "C" float name##f(float, float);
LF_MATH1(acos)
LF_MATH1(acosh) LF_MATH1(asin) LF_MATH1(asinh) LF_MATH1(atan) LF_MATH1(atanh) LF_MATH1(cbrt)
    LF_MATH1(ceil) LF_MATH1(cos) LF_MATH1(cosh) LF_MATH1(erf) LF_MATH1(erfc) LF_MATH1(exp)
        LF_MATH1(exp2) LF_MATH1(expm1) LF_MATH1(fabs) LF_MATH1(floor) LF_MATH1(j0) LF_MATH1(j1)
            LF_MATH1(lgamma) LF_MATH1(log) LF_MATH1(log10) LF_MATH1(log1p) LF_MATH1(log2)
                LF_MATH1(logb) LF_MATH1(nearbyint) LF_MATH1(rint) LF_MATH1(round) LF_MATH1(sin)
                    LF_MATH1(sinh) LF_MATH1(sqrt) LF_MATH1(tan) LF_MATH1(tanh) LF_MATH1(tgamma)
                        LF_MATH1(trunc) LF_MATH1(y0) LF_MATH1(y1) LF_MATH2(atan2) LF_MATH2(copysign)
                            LF_MATH2(fdim) LF_MATH2(fmax) LF_MATH2(fmin) LF_MATH2(fmod)
                                LF_MATH2(hypot) LF_MATH2(nextafter) LF_MATH2(pow)
                                    LF_MATH2(remainder) extern "C" {
  double fma(double, double, double);
  float fmaf(float, float, float);
  double ldexp(double, int);
  float ldexpf(float, int);
  double scalbn(double, int);
  float scalbnf(float, int);
  double frexp(double, int*);
  float frexpf(float, int*);
  double modf(double, double*);
  float modff(float, float*);
  void sincos(double, double*, double*);
  void sincosf(float, float*, float*);
  int ilogb(double);
  int ilogbf(float);
  long lrint(double);
  long lrintf(float);
  long long llrint(double);
  long long llrintf(float);
  long lround(double);
  long lroundf(float);
  long long llround(double);
  long long llroundf(float);
  int printf(const char*, ...);
}

LF_DEVICE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
LF_DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }
LF_DEVICE float exp10f(float x) { return powf(10.0f, x); }
LF_DEVICE double exp10(double x) { return pow(10.0, x); }
LF_DEVICE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
LF_DEVICE double rcbrt(double x) { return 1.0 / cbrt(x); }
LF_DEVICE float sinpif(float x) { return static_cast<float>(sin(3.14159265358979323846 * x)); }
LF_DEVICE float cospif(float x) { return static_cast<float>(cos(3.14159265358979323846 * x)); }
LF_DEVICE float fdividef(float a, float b) { return a / b; }

#define LF_OVERLOAD1(name) \
  LF_DEVICE float name(float x) { return name##f(x); }
LF_OVERLOAD1(acos)
LF_OVERLOAD1(acosh) LF_OVERLOAD1(asin) LF_OVERLOAD1(asinh) LF_OVERLOAD1(atan) LF_OVERLOAD1(atanh)
    LF_OVERLOAD1(cbrt) LF_OVERLOAD1(ceil) LF_OVERLOAD1(cos) LF_OVERLOAD1(cosh) LF_OVERLOAD1(erf)
        LF_OVERLOAD1(erfc) LF_OVERLOAD1(exp) LF_OVERLOAD1(exp2) LF_OVERLOAD1(expm1)
            LF_OVERLOAD1(fabs) LF_OVERLOAD1(floor) LF_OVERLOAD1(lgamma) LF_OVERLOAD1(log)
                LF_OVERLOAD1(log10) LF_OVERLOAD1(log1p) LF_OVERLOAD1(log2) LF_OVERLOAD1(rint)
                    LF_OVERLOAD1(round) LF_OVERLOAD1(rsqrt) LF_OVERLOAD1(sin) LF_OVERLOAD1(sinh)
                        LF_OVERLOAD1(sqrt) LF_OVERLOAD1(tan) LF_OVERLOAD1(tanh) LF_OVERLOAD1(trunc)
#define LF_OVERLOAD2(name) \
  LF_DEVICE float name(float x, float y) { return name##f(x, y); }
                            LF_OVERLOAD2(atan2) LF_OVERLOAD2(copysign) LF_OVERLOAD2(fmax)
                                LF_OVERLOAD2(fmin) LF_OVERLOAD2(fmod) LF_OVERLOAD2(pow) LF_DEVICE
    float fma(float a, float b, float c) {
  return fmaf(a, b, c);
}

LF_DEVICE int abs(int x) { return x < 0 ? -x : x; }
LF_DEVICE long abs(long x) { return x < 0 ? -x : x; }
LF_DEVICE long long abs(long long x) { return x < 0 ? -x : x; }
LF_DEVICE float abs(float x) { return fabsf(x); }
LF_DEVICE double abs(double x) { return fabs(x); }
LF_DEVICE long long llabs(long long x) { return x < 0 ? -x : x; }
#define LF_ORDER(type)                                         \
  LF_DEVICE type min(type a, type b) { return b < a ? b : a; } \
  LF_DEVICE type max(type a, type b) { return a < b ? b : a; }
LF_ORDER(int)
LF_ORDER(unsigned) LF_ORDER(long) LF_ORDER(unsigned long) LF_ORDER(long long)
    LF_ORDER(unsigned long long) LF_DEVICE float min(float a, float b) {
  return fminf(a, b);
}
LF_DEVICE float max(float a, float b) { return fmaxf(a, b); }
LF_DEVICE double min(double a, double b) { return fmin(a, b); }
LF_DEVICE double max(double a, double b) { return fmax(a, b); }

#define LF_CLASSIFY(name)                                           \
  LF_DEVICE bool name(float x) { return __builtin_##name(x) != 0; } \
  LF_DEVICE bool name(double x) { return __builtin_##name(x) != 0; }
LF_CLASSIFY(isnan)
LF_CLASSIFY(isinf) LF_CLASSIFY(isfinite) LF_CLASSIFY(signbit)

    // The device's fast functions are less exact than these; what must hold for them holds for
    // these.
    LF_DEVICE float __expf(float x) {
  return expf(x);
}
LF_DEVICE float __exp10f(float x) { return exp10f(x); }
LF_DEVICE float __logf(float x) { return logf(x); }
LF_DEVICE float __log2f(float x) { return log2f(x); }
LF_DEVICE float __log10f(float x) { return log10f(x); }
LF_DEVICE float __sinf(float x) { return sinf(x); }
LF_DEVICE float __cosf(float x) { return cosf(x); }
LF_DEVICE float __tanf(float x) { return tanf(x); }
LF_DEVICE float __powf(float x, float y) { return powf(x, y); }
LF_DEVICE float __fdividef(float x, float y) { return x / y; }
LF_DEVICE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
LF_DEVICE float __frcp_rn(float x) { return 1.0f / x; }
LF_DEVICE float __fsqrt_rn(float x) { return sqrtf(x); }
LF_DEVICE float __frsqrt_rn(float x) { return rsqrtf(x); }
LF_DEVICE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
LF_DEVICE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
LF_DEVICE double __dsqrt_rn(double x) { return sqrt(x); }
LF_DEVICE double __drcp_rn(double x) { return 1.0 / x; }
// These are never contracted to a fused multiply-add: the value goes through an opaque register.
#define LF_ROUNDED(name, type, op)      \
  LF_DEVICE type name(type a, type b) { \
    type result = a op b;               \
    __asm__("" : "+m"(result));         \
    return result;                      \
  }
LF_ROUNDED(__fadd_rn, float, +)
LF_ROUNDED(__fsub_rn, float, -) LF_ROUNDED(__fmul_rn, float, *) LF_ROUNDED(__fdiv_rn, float, /)
    LF_ROUNDED(__dadd_rn, double, +) LF_ROUNDED(__dsub_rn, double, -)
        LF_ROUNDED(__dmul_rn, double, *) LF_ROUNDED(__ddiv_rn, double, /)

            LF_DEVICE int __float_as_int(float x) {
  return lf_emu::bit_cast<int>(x);
}
LF_DEVICE unsigned __float_as_uint(float x) { return lf_emu::bit_cast<unsigned>(x); }
LF_DEVICE float __int_as_float(int x) { return lf_emu::bit_cast<float>(x); }
LF_DEVICE float __uint_as_float(unsigned x) { return lf_emu::bit_cast<float>(x); }
LF_DEVICE long long __double_as_longlong(double x) { return lf_emu::bit_cast<long long>(x); }
LF_DEVICE double __longlong_as_double(long long x) { return lf_emu::bit_cast<double>(x); }

// Conversions clamp to the target's range, and NaN becomes 0 (for 64 bits the lowest), as cvt does.
#define LF_CONVERT(name, from, to, round, low, high, nan) \
  LF_DEVICE to name(from x) {                             \
    if (x != x) return nan;                               \
    const from r = round(x);                              \
    if (r <= static_cast<from>(low)) return low;          \
    if (r >= static_cast<from>(high)) return high;        \
    return static_cast<to>(r);                            \
  }
#define LF_INT_LOW (-2147483647 - 1)
#define LF_LONG_LOW (-9223372036854775807LL - 1)
LF_CONVERT(__float2int_rn, float, int, rintf, LF_INT_LOW, 2147483647, 0)
LF_CONVERT(__float2int_rz, float, int, truncf, LF_INT_LOW, 2147483647, 0)
LF_CONVERT(__float2int_rd, float, int, floorf, LF_INT_LOW, 2147483647, 0)
LF_CONVERT(__float2int_ru, float, int, ceilf, LF_INT_LOW, 2147483647, 0)
LF_CONVERT(__float2uint_rn, float, unsigned, rintf, 0u, 4294967295u, 0u)
LF_CONVERT(__float2uint_rz, float, unsigned, truncf, 0u, 4294967295u, 0u)
LF_CONVERT(__float2ll_rn, float, long long, rintf, LF_LONG_LOW, 9223372036854775807LL, LF_LONG_LOW)
LF_CONVERT(__float2ll_rz, float, long long, truncf, LF_LONG_LOW, 9223372036854775807LL, LF_LONG_LOW)
LF_CONVERT(__double2int_rn, double, int, rint, LF_INT_LOW, 2147483647, 0)
LF_CONVERT(__double2int_rz, double, int, trunc, LF_INT_LOW, 2147483647, 0)
LF_CONVERT(__double2ll_rn, double, long long, rint, LF_LONG_LOW, 9223372036854775807LL, LF_LONG_LOW)
LF_CONVERT(__double2ll_rz, double, long long, trunc, LF_LONG_LOW, 9223372036854775807LL,
           LF_LONG_LOW)
LF_DEVICE float __int2float_rn(int x) { return static_cast<float>(x); }
LF_DEVICE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
LF_DEVICE float __ll2float_rn(long long x) { return static_cast<float>(x); }
LF_DEVICE double __ll2double_rn(long long x) { return static_cast<double>(x); }
LF_DEVICE float __double2float_rn(double x) { return static_cast<float>(x); }

LF_DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
LF_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
LF_DEVICE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
LF_DEVICE int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
LF_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
LF_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
LF_DEVICE unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= ((x >> i) & 1u) << (31 - i);
  return reversed;
}
LF_DEVICE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
LF_DEVICE int __mulhi(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) * b) >> 32);
}
LF_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
LF_DEVICE long long __mul64hi(long long a, long long b) {
  return static_cast<long long>((static_cast<__int128>(a) * b) >> 64);
}
LF_DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = (static_cast<unsigned long long>(b) << 32) | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned choice = (selector >> (4 * i)) & 0xf;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (choice & 7))) & 0xff;
    if ((choice & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
LF_DEVICE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
  return static_cast<unsigned>((both << (shift & 31)) >> 32);
}
LF_DEVICE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
template <class T>
LF_DEVICE T __ldg(const T* address) {
  return *address;
}
