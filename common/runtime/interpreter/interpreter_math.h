// Scalar arithmetic with PyTorch's edge cases, for the reference interpreter.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/runtime/interpreter/interpreter_value.h"

namespace common::interp {

double digamma(double x);
double erfinv(double x);
double log_gamma(double x);

// Integers wrap: arithmetic is done on the unsigned type of at least int's width.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
T wrap_mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}

template <class T>
T int_div(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return wrap_sub(T{0}, a);
  }
  return static_cast<T>(a / b);
}
template <class T>
T int_fmod(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <class T>
T int_floor_div(T a, T b) {
  T q = int_div(a, b);
  if constexpr (std::is_signed_v<T>) {
    if (int_fmod(a, b) != 0 && (a < 0) != (b < 0)) return static_cast<T>(q - 1);
  }
  return q;
}
template <class T>
T int_mod(T a, T b) {
  T r = int_fmod(a, b);
  if constexpr (std::is_signed_v<T>) {
    if (r != 0 && (r < 0) != (b < 0)) return static_cast<T>(r + b);
  }
  return r;
}
template <class T>
T int_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? T{1} : T{-1};
      return 0;
    }
  }
  T result = 1;
  for (; exponent != 0; exponent = static_cast<T>(exponent >> 1)) {
    if (exponent & 1) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}
template <class T>
T shift_left(T a, T b) {
  constexpr auto kBits = static_cast<int64_t>(sizeof(T) * 8);
  auto by = static_cast<int64_t>(b);
  if (by < 0 || by >= kBits) return 0;
  return static_cast<T>(static_cast<Wrapping<T>>(a) << by);
}
template <class T>
T shift_right(T a, T b) {
  constexpr auto kBits = static_cast<int64_t>(sizeof(T) * 8);
  auto by = static_cast<int64_t>(b);
  if (by < 0 || by >= kBits) {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (kBits - 1));
    return 0;
  }
  return static_cast<T>(a >> by);
}

// torch.floor_divide and torch.remainder for floats, in double.
inline double float_floor_div(double a, double b) {
  if (b == 0) return a / b;
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}
inline double float_mod(double a, double b) {
  double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// NaN wins.
template <class T>
T max_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  return a < b ? b : a;
}
template <class T>
T min_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return a;
    if (b != b) return b;
  }
  return b < a ? b : a;
}

// What x86's truncating conversion gives: the least integer when out of range or NaN.
template <class Int>
Int truncate_to(double x) {
  constexpr double kEnd = sizeof(Int) == 8 ? 0x1p63 : 0x1p31;
  if (!(x > -kEnd && x < kEnd)) return std::numeric_limits<Int>::min();
  return static_cast<Int>(x);
}

// Any storage type to any other.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, Complex>) {
    if constexpr (std::is_same_v<To, Bool>) return {static_cast<uint8_t>(x.re != 0 || x.im != 0)};
    return convert<To>(x.re);
  } else if constexpr (std::is_same_v<From, Bool>) {
    return convert<To>(static_cast<uint8_t>(x.value != 0));
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, Bfloat>) {
    return convert<To>(static_cast<float>(widen(x)));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != From{0})};
  } else if constexpr (std::is_same_v<To, Half>) {
    return {half_from_float(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, Bfloat>) {
    return {bfloat16_from_float(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<To, Complex>) {
    return {static_cast<float>(x), 0.0f};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    using Wide = std::conditional_t<(sizeof(To) == 8 || std::is_unsigned_v<To>), int64_t, int32_t>;
    return static_cast<To>(truncate_to<Wide>(static_cast<double>(x)));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace common::interp
