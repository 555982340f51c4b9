#include "common/runtime/interpreter/interpreter_math.h"

#include <math.h>

namespace common::interp {

double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);  // std::lgamma writes a global
}

// Reflection for negative arguments, recurrence up to 10, then the asymptotic series.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
    double whole;
    result = -M_PI / std::tan(M_PI * std::modf(x, &whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  double y = 1 / (x * x);
  double series = 0;
  // B_2k / 2k for k = 7 ... 1
  for (double c :
       {1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12}) {
    series = series * y + c;
  }
  return result + std::log(x) - 0.5 / x - series * y;
}

// Giles' approximation (GPU Computing Gems, 2011) refined by two Newton steps.
double erfinv(double x) {
  double magnitude = std::fabs(x);
  if (!(magnitude <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  double w = -std::log((1 - x) * (1 + x));
  double p = 0;
  if (w < 5) {
    w -= 2.5;
    for (double c : {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941}) {
      p = p * w + c;
    }
  } else {
    w = std::sqrt(w) - 3;
    for (double c : {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                     -0.0076224613, 0.00943887047, 1.00167406, 2.83297682}) {
      p = p * w + c;
    }
  }
  double y = p * x;
  for (int step = 0; step < 2; ++step) {
    // Far out, erf is 1 to all digits but erfc is not.
    double excess = std::erf(y) - x;
    if (magnitude > 0.5) {
      excess = ((1 - magnitude) - std::erfc(std::fabs(y))) * std::copysign(1.0, x);
    }
    y -= excess / (2 / std::sqrt(M_PI) * std::exp(-y * y));
  }
  return y;
}

}  // namespace common::interp
