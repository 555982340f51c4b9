// The mathematical functions and bit tricks that CUDA's compiler knows without headers.
#pragma once

#define LFEMU_MATH1(name)         \
  extern "C" double name(double); \
  extern "C" float name##f(float)
#define LFEMU_MATH2(name)                 \
  extern "C" double name(double, double); \
  extern "C" float name##f(float, float)
LFEMU_MATH1(acos);
LFEMU_MATH1(acosh);
LFEMU_MATH1(asin);
LFEMU_MATH1(asinh);
LFEMU_MATH1(atan);
LFEMU_MATH1(atanh);
LFEMU_MATH1(cbrt);
LFEMU_MATH1(ceil);
LFEMU_MATH1(cos);
LFEMU_MATH1(cosh);
LFEMU_MATH1(erf);
LFEMU_MATH1(erfc);
LFEMU_MATH1(exp);
LFEMU_MATH1(exp2);
LFEMU_MATH1(expm1);
LFEMU_MATH1(fabs);
LFEMU_MATH1(floor);
LFEMU_MATH1(j0);
LFEMU_MATH1(j1);
LFEMU_MATH1(lgamma);
LFEMU_MATH1(log);
LFEMU_MATH1(log10);
LFEMU_MATH1(log1p);
LFEMU_MATH1(log2);
LFEMU_MATH1(logb);
LFEMU_MATH1(nearbyint);
LFEMU_MATH1(rint);
LFEMU_MATH1(round);
LFEMU_MATH1(sin);
LFEMU_MATH1(sinh);
LFEMU_MATH1(sqrt);
LFEMU_MATH1(tan);
LFEMU_MATH1(tanh);
LFEMU_MATH1(tgamma);
LFEMU_MATH1(trunc);
LFEMU_MATH1(y0);
LFEMU_MATH1(y1);
LFEMU_MATH2(atan2);
LFEMU_MATH2(copysign);
LFEMU_MATH2(fdim);
LFEMU_MATH2(fmax);
LFEMU_MATH2(fmin);
LFEMU_MATH2(fmod);
LFEMU_MATH2(hypot);
LFEMU_MATH2(nextafter);
LFEMU_MATH2(pow);
LFEMU_MATH2(remainder);
extern "C" {
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

LFEMU_DEVICE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
LFEMU_DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }
LFEMU_DEVICE float exp10f(float x) { return powf(10.0f, x); }
LFEMU_DEVICE double exp10(double x) { return pow(10.0, x); }
LFEMU_DEVICE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
LFEMU_DEVICE double rcbrt(double x) { return 1.0 / cbrt(x); }
LFEMU_DEVICE float sinpif(float x) { return static_cast<float>(sin(3.14159265358979323846 * x)); }
LFEMU_DEVICE float cospif(float x) { return static_cast<float>(cos(3.14159265358979323846 * x)); }
LFEMU_DEVICE float fdividef(float a, float b) { return a / b; }

#define LFEMU_OVERLOAD1(name) \
  LFEMU_DEVICE float name(float x) { return name##f(x); }
LFEMU_OVERLOAD1(acos);
LFEMU_OVERLOAD1(acosh);
LFEMU_OVERLOAD1(asin);
LFEMU_OVERLOAD1(asinh);
LFEMU_OVERLOAD1(atan);
LFEMU_OVERLOAD1(atanh);
LFEMU_OVERLOAD1(cbrt);
LFEMU_OVERLOAD1(ceil);
LFEMU_OVERLOAD1(cos);
LFEMU_OVERLOAD1(cosh);
LFEMU_OVERLOAD1(erf);
LFEMU_OVERLOAD1(erfc);
LFEMU_OVERLOAD1(exp);
LFEMU_OVERLOAD1(exp2);
LFEMU_OVERLOAD1(expm1);
LFEMU_OVERLOAD1(fabs);
LFEMU_OVERLOAD1(floor);
LFEMU_OVERLOAD1(lgamma);
LFEMU_OVERLOAD1(log);
LFEMU_OVERLOAD1(log10);
LFEMU_OVERLOAD1(log1p);
LFEMU_OVERLOAD1(log2);
LFEMU_OVERLOAD1(rint);
LFEMU_OVERLOAD1(round);
LFEMU_OVERLOAD1(rsqrt);
LFEMU_OVERLOAD1(sin);
LFEMU_OVERLOAD1(sinh);
LFEMU_OVERLOAD1(sqrt);
LFEMU_OVERLOAD1(tan);
LFEMU_OVERLOAD1(tanh);
LFEMU_OVERLOAD1(trunc);
#define LFEMU_OVERLOAD2(name) \
  LFEMU_DEVICE float name(float x, float y) { return name##f(x, y); }
LFEMU_OVERLOAD2(atan2);
LFEMU_OVERLOAD2(copysign);
LFEMU_OVERLOAD2(fmax);
LFEMU_OVERLOAD2(fmin);
LFEMU_OVERLOAD2(fmod);
LFEMU_OVERLOAD2(pow);
LFEMU_DEVICE float fma(float a, float b, float c) { return fmaf(a, b, c); }

LFEMU_DEVICE int abs(int x) { return x < 0 ? -x : x; }
LFEMU_DEVICE long abs(long x) { return x < 0 ? -x : x; }
LFEMU_DEVICE long long abs(long long x) { return x < 0 ? -x : x; }
LFEMU_DEVICE float abs(float x) { return fabsf(x); }
LFEMU_DEVICE double abs(double x) { return fabs(x); }
LFEMU_DEVICE long long llabs(long long x) { return x < 0 ? -x : x; }
#define LFEMU_ORDER(type)                                         \
  LFEMU_DEVICE type min(type a, type b) { return b < a ? b : a; } \
  LFEMU_DEVICE type max(type a, type b) { return a < b ? b : a; }
LFEMU_ORDER(int);
LFEMU_ORDER(unsigned);
LFEMU_ORDER(long);
LFEMU_ORDER(unsigned long);
LFEMU_ORDER(long long);
LFEMU_ORDER(unsigned long long);
LFEMU_DEVICE float min(float a, float b) { return fminf(a, b); }
LFEMU_DEVICE float max(float a, float b) { return fmaxf(a, b); }
LFEMU_DEVICE double min(double a, double b) { return fmin(a, b); }
LFEMU_DEVICE double max(double a, double b) { return fmax(a, b); }

#define LFEMU_CLASSIFY(name)                                           \
  LFEMU_DEVICE bool name(float x) { return __builtin_##name(x) != 0; } \
  LFEMU_DEVICE bool name(double x) { return __builtin_##name(x) != 0; }
LFEMU_CLASSIFY(isnan);
LFEMU_CLASSIFY(isinf);
LFEMU_CLASSIFY(isfinite);
LFEMU_CLASSIFY(signbit);

// The device's fast functions are less exact than these; what must hold for them holds for
// these.
LFEMU_DEVICE float __expf(float x) { return expf(x); }
LFEMU_DEVICE float __exp10f(float x) { return exp10f(x); }
LFEMU_DEVICE float __logf(float x) { return logf(x); }
LFEMU_DEVICE float __log2f(float x) { return log2f(x); }
LFEMU_DEVICE float __log10f(float x) { return log10f(x); }
LFEMU_DEVICE float __sinf(float x) { return sinf(x); }
LFEMU_DEVICE float __cosf(float x) { return cosf(x); }
LFEMU_DEVICE float __tanf(float x) { return tanf(x); }
LFEMU_DEVICE float __powf(float x, float y) { return powf(x, y); }
LFEMU_DEVICE float __fdividef(float x, float y) { return x / y; }
LFEMU_DEVICE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
LFEMU_DEVICE float __frcp_rn(float x) { return 1.0f / x; }
LFEMU_DEVICE float __fsqrt_rn(float x) { return sqrtf(x); }
LFEMU_DEVICE float __frsqrt_rn(float x) { return rsqrtf(x); }
LFEMU_DEVICE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
LFEMU_DEVICE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
LFEMU_DEVICE double __dsqrt_rn(double x) { return sqrt(x); }
LFEMU_DEVICE double __drcp_rn(double x) { return 1.0 / x; }
// These are never contracted to a fused multiply-add: the value goes through an opaque register.
#define LFEMU_ROUNDED(name, type, op)      \
  LFEMU_DEVICE type name(type a, type b) { \
    type result = a op b;                  \
    __asm__("" : "+m"(result));            \
    return result;                         \
  }
LFEMU_ROUNDED(__fadd_rn, float, +);
LFEMU_ROUNDED(__fsub_rn, float, -);
LFEMU_ROUNDED(__fmul_rn, float, *);
LFEMU_ROUNDED(__fdiv_rn, float, /);
LFEMU_ROUNDED(__dadd_rn, double, +);
LFEMU_ROUNDED(__dsub_rn, double, -);
LFEMU_ROUNDED(__dmul_rn, double, *);
LFEMU_ROUNDED(__ddiv_rn, double, /);

LFEMU_DEVICE int __float_as_int(float x) { return lf_emu::bit_cast<int>(x); }
LFEMU_DEVICE unsigned __float_as_uint(float x) { return lf_emu::bit_cast<unsigned>(x); }
LFEMU_DEVICE float __int_as_float(int x) { return lf_emu::bit_cast<float>(x); }
LFEMU_DEVICE float __uint_as_float(unsigned x) { return lf_emu::bit_cast<float>(x); }
LFEMU_DEVICE long long __double_as_longlong(double x) { return lf_emu::bit_cast<long long>(x); }
LFEMU_DEVICE double __longlong_as_double(long long x) { return lf_emu::bit_cast<double>(x); }

// Conversions clamp to the target's range, and NaN becomes 0 (for 64 bits the lowest), as cvt does.
#define LFEMU_CONVERT(name, from, to, round, low, high, nan) \
  LFEMU_DEVICE to name(from x) {                             \
    if (x != x) return nan;                                  \
    const from r = round(x);                                 \
    if (r <= static_cast<from>(low)) return low;             \
    if (r >= static_cast<from>(high)) return high;           \
    return static_cast<to>(r);                               \
  }
#define LFEMU_INT_LOW (-2147483647 - 1)
#define LFEMU_LONG_LOW (-9223372036854775807LL - 1)
LFEMU_CONVERT(__float2int_rn, float, int, rintf, LFEMU_INT_LOW, 2147483647, 0);
LFEMU_CONVERT(__float2int_rz, float, int, truncf, LFEMU_INT_LOW, 2147483647, 0);
LFEMU_CONVERT(__float2int_rd, float, int, floorf, LFEMU_INT_LOW, 2147483647, 0);
LFEMU_CONVERT(__float2int_ru, float, int, ceilf, LFEMU_INT_LOW, 2147483647, 0);
LFEMU_CONVERT(__float2uint_rn, float, unsigned, rintf, 0u, 4294967295u, 0u);
LFEMU_CONVERT(__float2uint_rz, float, unsigned, truncf, 0u, 4294967295u, 0u);
LFEMU_CONVERT(__float2ll_rn, float, long long, rintf, LFEMU_LONG_LOW, 9223372036854775807LL,
              LFEMU_LONG_LOW)
LFEMU_CONVERT(__float2ll_rz, float, long long, truncf, LFEMU_LONG_LOW, 9223372036854775807LL,
              LFEMU_LONG_LOW)
LFEMU_CONVERT(__double2int_rn, double, int, rint, LFEMU_INT_LOW, 2147483647, 0);
LFEMU_CONVERT(__double2int_rz, double, int, trunc, LFEMU_INT_LOW, 2147483647, 0);
LFEMU_CONVERT(__double2ll_rn, double, long long, rint, LFEMU_LONG_LOW, 9223372036854775807LL,
              LFEMU_LONG_LOW)
LFEMU_CONVERT(__double2ll_rz, double, long long, trunc, LFEMU_LONG_LOW, 9223372036854775807LL,
              LFEMU_LONG_LOW)
LFEMU_DEVICE float __int2float_rn(int x) { return static_cast<float>(x); }
LFEMU_DEVICE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
LFEMU_DEVICE float __ll2float_rn(long long x) { return static_cast<float>(x); }
LFEMU_DEVICE double __ll2double_rn(long long x) { return static_cast<double>(x); }
LFEMU_DEVICE float __double2float_rn(double x) { return static_cast<float>(x); }

LFEMU_DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
LFEMU_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
LFEMU_DEVICE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
LFEMU_DEVICE int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
LFEMU_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
LFEMU_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
LFEMU_DEVICE unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= ((x >> i) & 1u) << (31 - i);
  return reversed;
}
LFEMU_DEVICE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
LFEMU_DEVICE int __mulhi(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) * b) >> 32);
}
LFEMU_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
LFEMU_DEVICE long long __mul64hi(long long a, long long b) {
  return static_cast<long long>((static_cast<__int128>(a) * b) >> 64);
}
LFEMU_DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
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
LFEMU_DEVICE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
  return static_cast<unsigned>((both << (shift & 31)) >> 32);
}
LFEMU_DEVICE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = (static_cast<unsigned long long>(high) << 32) | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
template <class T>
LFEMU_DEVICE T __ldg(const T* address) {
  return *address;
}
