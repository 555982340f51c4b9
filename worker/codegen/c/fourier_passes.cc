#include "worker/codegen/c/fourier_passes.h"

#include <cmath>
#include <utility>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::c_literal;
using common::cat;
using common::counting_loop;

namespace {

// C names of a complex number's parts.
struct Pair {
  std::string re, im;
};

// Butterflies: transforms of a handful of points held in registers.
class Butterfly {
 public:
  Butterfly(std::string vector, common::DType dtype, bool inverse)
      : vector_(std::move(vector)), dtype_(dtype), sign_(inverse ? 1 : -1) {}

  std::vector<Pair> transform(const std::vector<Pair>& x) {
    if (x.size() == 1) return x;
    return x.size() % 2 == 0 ? by_halves(x) : by_pairs(x);
  }

  Pair times(const Pair& x, const std::string& re, const std::string& im) {
    return {name(cat(x.re, " * ", re, " - ", x.im, " * ", im)),
            name(cat(x.re, " * ", im, " + ", x.im, " * ", re))};
  }
  std::string name(const std::string& expression) {
    std::string fresh = cat("t", next_++);
    text_ += cat("const ", vector_, " ", fresh, " = ", expression, ";\n");
    return fresh;
  }
  const std::string& text() const { return text_; }

 private:
  // Even and odd positions, then a turn by exp(s 2 pi i k / n) each.
  std::vector<Pair> by_halves(const std::vector<Pair>& x) {
    std::vector<Pair> even, odd;
    for (size_t k = 0; k < x.size(); ++k) (k % 2 == 0 ? even : odd).push_back(x[k]);
    even = transform(even);
    odd = transform(odd);
    size_t n = x.size(), half = n / 2;
    std::vector<Pair> y(n);
    for (size_t k = 0; k < half; ++k) {
      const Pair& e = even[k];
      const Pair& o = odd[k];
      if (k == 0) {
        y[k] = {name(cat(e.re, " + ", o.re)), name(cat(e.im, " + ", o.im))};
        y[k + half] = {name(cat(e.re, " - ", o.re)), name(cat(e.im, " - ", o.im))};
      } else if (4 * k == n) {
        std::tie(y[k], y[k + half]) = quarter_turn(e, o);
      } else {
        Pair rotated = twiddle_times(o, k, n);
        y[k] = {name(cat(e.re, " + ", rotated.re)), name(cat(e.im, " + ", rotated.im))};
        y[k + half] = {name(cat(e.re, " - ", rotated.re)), name(cat(e.im, " - ", rotated.im))};
      }
    }
    return y;
  }

  // e + s i o and e - s i o.
  std::pair<Pair, Pair> quarter_turn(const Pair& e, const Pair& o) {
    Pair ahead{name(cat(e.re, " - ", o.im)), name(cat(e.im, " + ", o.re))};
    Pair behind{name(cat(e.re, " + ", o.im)), name(cat(e.im, " - ", o.re))};
    if (sign_ > 0) return {ahead, behind};
    return {behind, ahead};
  }

  Pair twiddle_times(const Pair& x, size_t k, size_t n) {
    double angle = sign_ * 2 * M_PI * static_cast<double>(k) / static_cast<double>(n);
    return times(x, number(std::cos(angle)), number(std::sin(angle)));
  }

  // An odd number of points: those at j and n - j share their cosines, and their sines but for the
  // sign.
  std::vector<Pair> by_pairs(const std::vector<Pair>& x) {
    size_t n = x.size(), half = n / 2;
    std::vector<Pair> sums(half + 1), differences(half + 1);
    Pair first = x[0];
    for (size_t j = 1; j <= half; ++j) {
      const Pair &p = x[j], &q = x[n - j];
      sums[j] = {name(cat(p.re, " + ", q.re)), name(cat(p.im, " + ", q.im))};
      differences[j] = {name(cat(p.re, " - ", q.re)), name(cat(p.im, " - ", q.im))};
      first = {name(cat(first.re, " + ", sums[j].re)), name(cat(first.im, " + ", sums[j].im))};
    }
    std::vector<Pair> y(n);
    y[0] = first;
    for (size_t k = 1; k <= half; ++k) {
      Pair even = x[0], odd;
      for (size_t j = 1; j <= half; ++j) {
        double angle = 2 * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n);
        std::string c = number(std::cos(angle)), s = number(std::sin(angle));
        even = {name(cat(even.re, " + ", sums[j].re, " * ", c)),
                name(cat(even.im, " + ", sums[j].im, " * ", c))};
        Pair part{cat(differences[j].re, " * ", s), cat(differences[j].im, " * ", s)};
        odd = j == 1 ? Pair{name(part.re), name(part.im)}
                     : Pair{name(cat(odd.re, " + ", part.re)), name(cat(odd.im, " + ", part.im))};
      }
      std::tie(y[k], y[n - k]) = quarter_turn(even, odd);
    }
    return y;
  }

  std::string number(double value) const { return c_literal(dtype_, value); }

  std::string vector_;
  common::DType dtype_;
  int sign_;
  std::string text_;
  int next_ = 0;
};

std::string vector_type(const FourierPasses& p) { return cat("lf_", p.type, p.lanes); }
common::DType dtype_of(const std::string& type) {
  return type == "float" ? common::DType::kFloat32 : common::DType::kFloat64;
}

std::string element(const FourierPasses& p, const std::string& buffer, const std::string& index,
                    bool imaginary) {
  return cat("*(", vector_type(p), "*)(", buffer, " + (", index, ") * ", 2 * p.lanes,
             imaginary ? cat(" + ", p.lanes) : "", ")");
}

// One pass of Stockham's transform: groups p of n points, n = radix m, that lie `stride` apart, and
// q of `stride` of them side by side. Results are in order without a pass that sorts them.
std::string one_pass(const FourierPasses& f, int64_t radix, int64_t n, int64_t stride,
                     const std::string& from, const std::string& to) {
  int64_t m = n / radix;
  Butterfly butterfly(vector_type(f), dtype_of(f.type), f.inverse);
  std::vector<Pair> x;
  for (int64_t j = 0; j < radix; ++j) {
    std::string at = cat("q + p * ", stride, " + ", j * m * stride);
    x.push_back(
        {butterfly.name(element(f, from, at, false)), butterfly.name(element(f, from, at, true))});
  }
  std::vector<Pair> y = butterfly.transform(x);
  std::string stores;
  for (int64_t k = 0; k < radix; ++k) {
    Pair z = y[static_cast<size_t>(k)];
    if (m > 1 && k > 0) {
      // exp(s 2 pi i p k / n), of a circle of n * stride points.
      std::string twiddle = cat("twiddles[2 * (p * ", k * stride * f.twiddle_step, ")");
      z = butterfly.times(z, twiddle + "]", twiddle + " + 1]");
    }
    std::string at = cat("q + (p * ", radix, " + ", k, ") * ", stride);
    stores += cat(element(f, to, at, false), " = ", z.re, ";\n");
    stores += cat(element(f, to, at, true), " = ", z.im, ";\n");
  }
  return cat(counting_loop("p", "0", cat(m)), " {\n", counting_loop("q", "0", cat(stride)), " {\n",
             butterfly.text(), stores, "}\n}\n");
}

}  // namespace

std::string fourier_passes(const FourierPasses& passes, const std::string& a,
                           const std::string& b) {
  std::string text, from = a, to = b;
  int64_t n = passes.points, stride = 1;
  for (int64_t radix : passes.radices) {
    text += one_pass(passes, radix, n, stride, from, to);
    n /= radix;
    stride *= radix;
    std::swap(from, to);
  }
  return text;
}

std::string unpack_real(const FourierPasses& passes, const std::string& from,
                        const std::string& to) {
  // With e and o the transforms of even and odd positions, z = e + i o, and so of the frequencies k
  // and N - k: 2 e = z[k] + conj z[N - k], 2 i o = z[k] - conj z[N - k].
  int64_t n = passes.points;
  Butterfly b(vector_type(passes), dtype_of(passes.type), passes.inverse);
  auto load = [&](const std::string& at) {
    return Pair{b.name(element(passes, from, at, false)), b.name(element(passes, from, at, true))};
  };
  std::string half = c_literal(dtype_of(passes.type), 0.5);
  Pair x = load("k"), y = load(cat("k == 0 ? 0 : ", n, " - k"));
  Pair e{b.name(cat("(", x.re, " + ", y.re, ") * ", half)),
         b.name(cat("(", x.im, " - ", y.im, ") * ", half))};
  Pair o{b.name(cat("(", x.im, " + ", y.im, ") * ", half)),
         b.name(cat("(", y.re, " - ", x.re, ") * ", half))};
  Pair rotated = b.times(o, "twiddles[2 * k]", "twiddles[2 * k + 1]");
  std::string mirror = cat(n, " - k");
  return cat(counting_loop("k", "0", cat(n / 2 + 1)), " {\n", b.text(),
             element(passes, to, mirror, false), " = ", e.re, " - ", rotated.re, ";\n",
             element(passes, to, mirror, true), " = ", rotated.im, " - ", e.im, ";\n",
             element(passes, to, "k", false), " = ", e.re, " + ", rotated.re, ";\n",
             element(passes, to, "k", true), " = ", e.im, " + ", rotated.im, ";\n}\n");
}

std::string twiddle_table(int64_t count, bool inverse, const std::string& type) {
  std::string text = cat("static const ", type, " twiddles[] = {");
  double step = (inverse ? 2 : -2) * M_PI / static_cast<double>(count);
  for (int64_t k = 0; k < count; ++k) {
    double angle = step * static_cast<double>(k);
    text += cat(c_literal(dtype_of(type), std::cos(angle)), ",",
                c_literal(dtype_of(type), std::sin(angle)), k % 4 == 3 ? ",\n" : ",");
  }
  return text + "};\n";
}

}  // namespace worker
