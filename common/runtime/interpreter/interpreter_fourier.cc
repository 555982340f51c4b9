// Fourier transforms, in the elements' type.
#include <cmath>
#include <complex>

#include "common/runtime/interpreter/interpreter_ops.h"

namespace common::interp {

namespace {

// Transforms of n points by their smallest factors (Cooley and Tukey, 1965). A prime number of
// points takes its square.
template <class T>
class Transform {
 public:
  using Number = std::complex<T>;

  Transform(int64_t points, bool inverse) : points_(points) {
    double step = (inverse ? 2 : -2) * M_PI / static_cast<double>(points);
    for (int64_t k = 0; k < points; ++k) {
      std::complex<double> twiddle = std::polar(1.0, step * static_cast<double>(k));
      twiddles_.push_back(Number(static_cast<T>(twiddle.real()), static_cast<T>(twiddle.imag())));
    }
    for (int64_t left = points, f = 2; left > 1; ++f) {
      if (f * f > left) f = left;
      for (; left % f == 0; left /= f) factors_.push_back(f);
    }
    spare_.resize(static_cast<size_t>(points));
  }

  void run(const std::vector<Number>& from, std::vector<Number>& to) {
    step(from.data(), 1, to.data(), spare_.data(), points_, 0);
  }

 private:
  // `to` and `spare` have n elements; every `stride`-th of `from` is read.
  void step(const Number* from, int64_t stride, Number* to, Number* spare, int64_t n,
            size_t factor) {
    if (n == 1) {
      to[0] = from[0];
      return;
    }
    int64_t f = factors_[factor];
    int64_t m = n / f;
    for (int64_t a = 0; a < f; ++a) {
      step(from + a * stride, stride * f, spare + a * m, to + a * m, m, factor + 1);
    }
    for (int64_t b = 0; b < m; ++b) {
      for (int64_t a = 0; a < f; ++a) {
        spare[a * m + b] = product(spare[a * m + b], twiddle(a * b * (points_ / n)));
      }
      for (int64_t t = 0; t < f; ++t) {
        Number sum = 0;
        for (int64_t a = 0, turn = 0; a < f; ++a) {
          sum += product(spare[a * m + b], twiddle(turn * (points_ / f)));
          turn += t;
          if (turn >= f) turn -= f;
        }
        to[t * m + b] = sum;
      }
    }
  }

  const Number& twiddle(int64_t turn) const { return twiddles_[static_cast<size_t>(turn)]; }
  // Without the library's care for infinities.
  static Number product(const Number& a, const Number& b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }

  int64_t points_;
  std::vector<Number> twiddles_;
  std::vector<int64_t> factors_;
  std::vector<Number> spare_;
};

}  // namespace

Result<Value> eval_fourier(const Context& context, const FourierAttr& attr,
                           std::span<const Value> operands) {
  LFARM_ASSIGN_OR_RETURN(Value real, contiguous(context, operands[0]));
  Value imaginary = real;
  if (operands.size() > 1) {
    LFARM_ASSIGN_OR_RETURN(imaginary, contiguous(context, operands[1]));
  }
  Sizes sizes = real.sizes;
  int64_t points = sizes.back();
  sizes.back() = attr.count;
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, real.dtype(), sizes));
  int64_t rows = count_of(std::span(real.sizes).first(real.sizes.size() - 1));
  dispatch_float(real.dtype(), [&](auto unit) {
    using T = decltype(unit);
    const T* re = real.data<T>();
    const T* im = imaginary.data<T>();
    T* to = out.mutable_data<T>();
    Transform<T> transform(points, attr.inverse);
    std::vector<std::complex<T>> row(static_cast<size_t>(points));
    std::vector<std::complex<T>> spectrum(row.size());
    for (int64_t r = 0; r < rows; ++r, re += points, im += points, to += attr.count) {
      for (int64_t p = 0; p < points; ++p) {
        row[static_cast<size_t>(p)] = {re[p], operands.size() > 1 ? im[p] : T(0)};
      }
      transform.run(row, spectrum);
      for (int64_t q = 0; q < attr.count; ++q) {
        const std::complex<T>& x = spectrum[static_cast<size_t>(q)];
        to[q] = attr.imaginary ? x.imag() : x.real();
      }
    }
  });
  return out;
}

}  // namespace common::interp
