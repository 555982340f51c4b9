// Complex arithmetic and Fourier transforms, on pairs of reals along a last axis of two.
#include <cmath>

#include "clients/pt2/operators.h"
#include "clients/pt2/translate_math.h"

namespace clients {
namespace {

// Transforms of at most this many points, and of prime lengths, are one matrix product; longer
// ones are split by their factors (Cooley and Tukey), so that work stays near n log n.
constexpr int64_t kDirectLength = 64;
constexpr int64_t kMaxLength = int64_t{1} << 30;

struct Complex {
  NodeId real = 0;
  NodeId imaginary = 0;
};

NodeId zero_like(Context& c, NodeId x) { return c.b.full(c.b.dtype(x), c.b.shape(x), 0); }
NodeId negated(Context& c, NodeId x) { return c.b.unary(UnaryOp::kNeg, x); }

Complex split(Context& c, NodeId pairs) {
  int axis = c.b.rank(pairs) - 1;
  return {c.b.squeeze(c.b.slice(pairs, axis, 0, 1), axis),
          c.b.squeeze(c.b.slice(pairs, axis, 1, 1), axis)};
}

NodeId join(Context& c, const Complex& z) {
  int axis = c.b.rank(z.real);
  return c.b.concat({c.b.unsqueeze(z.real, axis), c.b.unsqueeze(z.imaginary, axis)}, axis);
}

DType real_dtype(Context& c) { return c.out_dtype(); }

// A complex or real argument, or a number, in parts.
Complex parts(Context& c, std::string_view name, DType d) {
  if (c.is_complex(name)) return split(c, c.any_tensor(name));
  NodeId real = as(c, operand(c, name), d);
  return {real, zero_like(c, real)};
}

Complex times(Context& c, const Complex& a, const Complex& b) {
  return {sub(c, mul(c, a.real, b.real), mul(c, a.imaginary, b.imaginary)),
          add(c, mul(c, a.real, b.imaginary), mul(c, a.imaginary, b.real))};
}

Complex broadcasted(Context& c, Complex z, const Shape& shape) {
  if (!c.b.can_expand(z.real, shape)) c.refuse("the operands do not broadcast");
  return {c.b.expand(z.real, shape), c.b.expand(z.imaginary, shape)};
}

void set_parts(Context& c, Complex z, size_t k = 0) {
  if (!c.out_is_complex(k)) c.refuse("the result should be complex");
  Sizes shape = c.out_shape(k);
  shape.pop_back();
  z = broadcasted(c, z, shape);
  c.set_complex(join(c, z), k);
}

void convert(Context& c) {
  DType d = real_dtype(c);
  bool from_complex = c.is_complex("self");
  Complex z = parts(c, "self", d);
  z = {c.b.cast(z.real, d), c.b.cast(z.imaginary, d)};
  if (c.out_is_complex()) return set_parts(c, z);
  if (from_complex) c.result(z.real);  // the imaginary part is dropped
}

void add_parts(Context& c, double sign) {
  DType d = real_dtype(c);
  Complex a = parts(c, "self", d);
  Complex b = parts(c, "other", d);
  double scale = sign * c.number("alpha", 1);
  if (scale != 1) b = {mul(c, b.real, scale), mul(c, b.imaginary, scale)};
  set_parts(c, {add(c, a.real, b.real), add(c, a.imaginary, b.imaginary)});
}

void multiply(Context& c) {
  DType d = real_dtype(c);
  set_parts(c, times(c, parts(c, "self", d), parts(c, "other", d)));
}

void divide(Context& c) {
  DType d = real_dtype(c);
  Complex a = parts(c, "self", d);
  if (!c.is_complex("other")) {
    NodeId b = parts(c, "other", d).real;
    return set_parts(c, {div(c, a.real, b), div(c, a.imaginary, b)});
  }
  Complex b = parts(c, "other", d);
  NodeId size = add(c, mul(c, b.real, b.real), mul(c, b.imaginary, b.imaginary));
  Complex product = times(c, a, {b.real, negated(c, b.imaginary)});
  set_parts(c, {div(c, product.real, size), div(c, product.imaginary, size)});
}

void conjugate(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  c.set_complex(join(c, {z.real, negated(c, z.imaginary)}));
}

void negate(Context& c) { c.set_complex(negated(c, c.any_tensor("self"))); }

View part_view(Context& c, int64_t part) {
  Sizes shape = c.b.shape(c.any_tensor("self"));
  int axis = static_cast<int>(shape.size()) - 1;
  View one = common::view_slice(shape, axis, part, 1, 1);
  auto view = common::view_compose(common::view_squeeze(one.shape, axis), one, c.b.symbols());
  if (!view) c.refuse("the parts cannot be viewed");
  return *view;
}

// Views of the pairs are set through a real tensor, as the storage is one.
void real_part(Context& c) {
  if (!c.is_complex("self")) return c.alias("self");
  c.set(c.b.view(c.any_tensor("self"), part_view(c, 0)));
}
void imaginary_part(Context& c) { c.set(c.b.view(c.any_tensor("self"), part_view(c, 1))); }

void magnitude(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  c.result(c.b.binary(BinaryOp::kHypot, z.real, z.imaginary));
}

void angle(Context& c) {
  if (c.is_complex("self")) {
    Complex z = split(c, c.any_tensor("self"));
    return c.result(c.b.binary(BinaryOp::kAtan2, z.imaginary, z.real));
  }
  NodeId x = float_tensor(c, "self");
  NodeId turned = c.b.select(less(c, x, 0), number_like(c, x, M_PI), number_like(c, x, 0));
  c.result(c.b.select(c.b.unary(UnaryOp::kIsNan, x), x, turned));
}

void exponential(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  NodeId size = c.b.unary(UnaryOp::kExp, z.real);
  set_parts(c, {mul(c, size, c.b.unary(UnaryOp::kCos, z.imaginary)),
                mul(c, size, c.b.unary(UnaryOp::kSin, z.imaginary))});
}

void make_complex(Context& c) {
  Complex z{c.tensor("real"), c.tensor("imag")};
  set_parts(c, z);
}

void polar(Context& c) {
  NodeId size = c.tensor("abs");
  NodeId turn = c.tensor("angle");
  set_parts(c, {mul(c, size, c.b.unary(UnaryOp::kCos, turn)),
                mul(c, size, c.b.unary(UnaryOp::kSin, turn))});
}

void total(Context& c) {
  NodeId x = c.any_tensor("self");
  c.set_complex(
      c.b.reduce(ReduceOp::kSum, x, c.axes("dim", c.b.rank(x) - 1), c.flag("keepdim", false)));
}

void mean_of(Context& c) {
  NodeId x = c.any_tensor("self");
  std::vector<int> axes = c.axes("dim", c.b.rank(x) - 1);
  NodeId sum = c.b.reduce(ReduceOp::kSum, x, axes, c.flag("keepdim", false));
  c.set_complex(div(c, sum, count(c, x, axes, c.b.dtype(x))));
}

// ---- Fourier transforms ----------------------------------------------------------------------

// cos and sin of sign * 2 pi * (row * column mod n) / n for a grid of rows and columns.
Complex twiddles(Context& c, int64_t rows, int64_t columns, int64_t n, double sign, DType d) {
  NodeId row = positions(c, rows, 0, 2);
  NodeId column = positions(c, columns, 1, 2);
  NodeId turn = c.b.binary(BinaryOp::kMod, mul(c, row, column), c.b.scalar_int(DType::kInt64, n));
  NodeId angle = mul(c, c.b.cast(turn, DType::kFloat64), sign * 2 * M_PI / static_cast<double>(n));
  return {c.b.cast(c.b.unary(UnaryOp::kCos, angle), d),
          c.b.cast(c.b.unary(UnaryOp::kSin, angle), d)};
}

int64_t largest_factor(int64_t n) {
  for (int64_t f = std::min(kDirectLength, n / 2); f > 1; --f) {
    if (n % f == 0) return f;
  }
  return 1;
}

// Along the last axis, whose length n is known; without an imaginary part the input is real.
// Gives the first `wanted` frequencies.
Complex transform(Context& c, NodeId real, std::optional<NodeId> imaginary, int64_t n,
                  int64_t wanted, double sign) {
  DType d = c.b.dtype(real);
  int64_t factor = n <= kDirectLength ? 1 : largest_factor(n);
  if (factor == 1) {
    Complex w = twiddles(c, n, wanted, n, sign, d);
    Complex out{matmul(c, real, w.real), matmul(c, real, w.imaginary)};
    if (imaginary) {
      out = {sub(c, out.real, matmul(c, *imaginary, w.imaginary)),
             add(c, out.imaginary, matmul(c, *imaginary, w.real))};
    }
    return out;
  }
  // n = f * m: position p = a * m + b, frequency q = s + f * t with a, s < f and b, t < m.
  int64_t rest = n / factor;
  int rank = c.b.rank(real);
  auto fold = [&](NodeId x) {
    Sizes shape = c.b.shape(x);
    shape.back() = factor;
    shape.push_back(rest);
    std::vector<int> order;
    for (int k = 0; k < rank - 1; ++k) order.push_back(k);
    order.push_back(rank);
    order.push_back(rank - 1);
    return c.b.permute(c.b.reshape(x, shape), order);  // (..., b, a)
  };
  std::optional<NodeId> folded;
  if (imaginary) folded = fold(*imaginary);
  Complex inner = transform(c, fold(real), folded, factor, factor, sign);  // (..., b, s)
  inner = times(c, inner, twiddles(c, rest, factor, n, sign, d));
  std::vector<int> order;
  for (int k = 0; k < rank - 1; ++k) order.push_back(k);
  order.push_back(rank);
  order.push_back(rank - 1);
  auto turn = [&](NodeId x) { return c.b.permute(x, order); };
  // (..., s, t), then frequencies in order (..., t, s).
  Complex outer = transform(c, turn(inner.real), turn(inner.imaginary), rest, rest, sign);
  auto unfold = [&](NodeId x) {
    NodeId ordered = c.b.permute(x, order);
    Sizes shape = c.b.shape(ordered);
    shape.pop_back();
    shape.back() = n;
    NodeId line = c.b.reshape(ordered, shape);
    return wanted == n ? line : c.b.slice(line, c.b.rank(line) - 1, 0, wanted);
  };
  return {unfold(outer.real), unfold(outer.imaginary)};
}

int64_t known_length(Context& c, NodeId x, int axis) {
  Expr size = c.b.size(x, axis);
  if (!size.is_constant() || size.constant() < 1 || size.constant() > kMaxLength) {
    c.refuse("transforms of symbolic or huge lengths are not supported");
  }
  return size.constant();
}

NodeId to_last(Context& c, NodeId x, int axis) {
  std::vector<int> order;
  for (int k = 0; k < c.b.rank(x); ++k) {
    if (k != axis) order.push_back(k);
  }
  order.push_back(axis);
  return c.b.permute(x, order);
}
NodeId from_last(Context& c, NodeId x, int axis) {
  std::vector<int> order;
  int last = c.b.rank(x) - 1;
  for (int k = 0; k < last; ++k) order.push_back(k);
  order.insert(order.begin() + axis, last);
  return c.b.permute(x, order);
}

// One axis of a complex value, forward (sign -1) or backward (sign 1), not normalised.
Complex transform_axis(Context& c, Complex z, int axis, double sign) {
  int64_t n = known_length(c, z.real, axis);
  bool vector = c.b.rank(z.real) == 1;
  auto enter = [&](NodeId x) { return vector ? c.b.unsqueeze(x, 0) : to_last(c, x, axis); };
  auto leave = [&](NodeId x) { return vector ? c.b.squeeze(x, 0) : from_last(c, x, axis); };
  Complex out = transform(c, enter(z.real), enter(z.imaginary), n, n, sign);
  return {leave(out.real), leave(out.imaginary)};
}

Complex transform_real_axis(Context& c, NodeId x, int axis, int64_t wanted) {
  int64_t n = known_length(c, x, axis);
  bool vector = c.b.rank(x) == 1;
  NodeId moved = vector ? c.b.unsqueeze(x, 0) : to_last(c, x, axis);
  Complex out = transform(c, moved, std::nullopt, n, wanted, -1);
  auto leave = [&](NodeId y) { return vector ? c.b.squeeze(y, 0) : from_last(c, y, axis); };
  return {leave(out.real), leave(out.imaginary)};
}

// What torch's normalisation modes multiply with: 0 nothing, 1 by 1/sqrt(n), 2 by 1/n.
double normaliser(int64_t mode, double points) {
  if (mode == 1) return 1 / std::sqrt(points);
  return mode == 2 ? 1 / points : 1;
}

Complex scaled(Context& c, Complex z, double factor) {
  if (factor == 1) return z;
  return {mul(c, z.real, factor), mul(c, z.imaginary, factor)};
}

std::vector<int> transform_axes(Context& c, int rank) {
  std::vector<int> out;
  for (int64_t dim : c.integers("dim")) {
    int axis = static_cast<int>(dim < 0 ? dim + rank : dim);
    if (axis < 0 || axis >= rank) c.refuse("no such axis");
    out.push_back(axis);
  }
  if (out.empty()) c.refuse("no axis is given");
  return out;
}

void fft_c2c(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  double sign = c.flag("forward", true) ? -1 : 1;
  double points = 1;
  for (int axis : transform_axes(c, c.b.rank(z.real))) {
    points *= static_cast<double>(known_length(c, z.real, axis));
    z = transform_axis(c, z, axis, sign);
  }
  set_parts(c, scaled(c, z, normaliser(c.integer("normalization", 0), points)));
}

void fft_r2c(Context& c) {
  NodeId x = c.tensor("self");
  std::vector<int> axes = transform_axes(c, c.b.rank(x));
  double points = 1;
  for (int axis : axes) points *= static_cast<double>(known_length(c, x, axis));
  int64_t n = known_length(c, x, axes.back());
  int64_t wanted = c.flag("onesided", true) ? n / 2 + 1 : n;
  Complex z = transform_real_axis(c, x, axes.back(), wanted);
  axes.pop_back();
  for (int axis : axes) z = transform_axis(c, z, axis, -1);
  set_parts(c, scaled(c, z, normaliser(c.integer("normalization", 0), points)));
}

// The missing half of a Hermitian spectrum mirrors the other: X[n - k] = conj(X[k]).
Complex mirrored(Context& c, Complex z, int axis, int64_t n) {
  int64_t half = n / 2 + 1;
  auto fit = [&](NodeId x) {
    int64_t length = known_length(c, x, axis);
    if (length >= half) return c.b.slice(x, axis, 0, half);
    return c.b.pad(x, axis, 0, half - length, 0);
  };
  z = {fit(z.real), fit(z.imaginary)};
  int64_t rest = n - half;
  if (rest == 0) return z;
  auto tail = [&](NodeId x) { return c.b.slice(x, axis, rest, rest, -1); };
  return {c.b.concat({z.real, tail(z.real)}, axis),
          c.b.concat({z.imaginary, negated(c, tail(z.imaginary))}, axis)};
}

void inverse_real(Context& c, Complex z, std::vector<int> axes, int64_t n, int64_t mode) {
  int last = axes.back();
  axes.pop_back();
  double points = static_cast<double>(n);
  for (int axis : axes) {
    points *= static_cast<double>(known_length(c, z.real, axis));
    z = transform_axis(c, z, axis, 1);
  }
  // The first frequency, and the middle one of an even length, are real by definition.
  NodeId place = positions(c, c.b.size(z.real, last), last, c.b.rank(z.real));
  NodeId first = c.b.binary(BinaryOp::kEqual, place, c.b.scalar_int(DType::kInt64, 0));
  NodeId middle =
      c.b.binary(BinaryOp::kEqual, mul(c, place, 2.0), c.b.scalar_int(DType::kInt64, n));
  NodeId alone = c.b.binary(BinaryOp::kOr, first, middle);
  z.imaginary = c.b.select(alone, number_like(c, z.imaginary, 0), z.imaginary);
  Complex whole = transform_axis(c, mirrored(c, z, last, n), last, 1);
  double factor = normaliser(mode, points);
  c.result(factor == 1 ? whole.real : mul(c, whole.real, factor));
}

void fft_c2r(Context& c) {
  Complex z = split(c, c.any_tensor("self"));
  inverse_real(c, z, transform_axes(c, c.b.rank(z.real)), c.integer("last_dim_size"),
               c.integer("normalization", 0));
}

// The public functions: norm by name, an optional length to cut or pad to.
int64_t mode_of(Context& c, bool forward) {
  std::string norm = c.text("norm", "backward");
  if (norm == "ortho") return 1;
  if (norm == "forward") return forward ? 2 : 0;
  return forward ? 0 : 2;
}

NodeId with_length(Context& c, NodeId x, int axis, int64_t n) {
  int64_t length = known_length(c, x, axis);
  return length >= n ? c.b.slice(x, axis, 0, n) : c.b.pad(x, axis, 0, n - length, 0);
}

void rfft(Context& c) {
  NodeId x = float_tensor(c, "self");
  int axis = c.axis("dim", c.b.rank(x), -1);
  int64_t n = c.has("n") ? c.integer("n") : known_length(c, x, axis);
  Complex z = transform_real_axis(c, with_length(c, x, axis, n), axis, n / 2 + 1);
  set_parts(c, scaled(c, z, normaliser(mode_of(c, true), static_cast<double>(n))));
}

void irfft(Context& c) {
  Complex z = parts(c, "self", real_dtype(c));
  int axis = c.axis("dim", c.b.rank(z.real), -1);
  int64_t n = c.has("n") ? c.integer("n") : 2 * (known_length(c, z.real, axis) - 1);
  inverse_real(c, z, {axis}, n, mode_of(c, false));
}

void fft(Context& c, bool forward) {
  Complex z = parts(c, "self", real_dtype(c));
  int axis = c.axis("dim", c.b.rank(z.real), -1);
  int64_t n = c.has("n") ? c.integer("n") : known_length(c, z.real, axis);
  z = {with_length(c, z.real, axis, n), with_length(c, z.imaginary, axis, n)};
  Complex out = transform_axis(c, z, axis, forward ? -1 : 1);
  set_parts(c, scaled(c, out, normaliser(mode_of(c, forward), static_cast<double>(n))));
}

// Overlapping windowed frames and their spectra: (batch, frequency, frame).
void stft(Context& c) {
  NodeId x = float_tensor(c, "self");
  int64_t n = c.integer("n_fft");
  int64_t hop = c.integer("hop_length", n / 4);
  int64_t width = c.integer("win_length", n);
  if (c.flag("center", false)) c.refuse("centred frames are not supported; pad before");
  int rank = c.b.rank(x);
  Expr frames = c.b.simplify(common::floor_div(c.b.size(x, c.b.rank(x) - 1) - Expr(n), hop) + 1);
  NodeId framed = c.b.view(x, common::view_unfold(c.b.shape(x), rank - 1, frames, n, hop));
  if (auto window = c.optional_tensor("window")) {
    NodeId w = c.b.cast(*window, c.b.dtype(x));
    int64_t left = (n - width) / 2;
    framed = mul(c, framed, c.b.pad(w, 0, left, n - width - left, 0));
  } else if (width != n) {
    NodeId ones = c.b.full(c.b.dtype(x), {width}, 1);
    int64_t left = (n - width) / 2;
    framed = mul(c, framed, c.b.pad(ones, 0, left, n - width - left, 0));
  }
  bool onesided = c.flag("onesided", true);
  Complex z = transform_real_axis(c, framed, rank, onesided ? n / 2 + 1 : n);
  if (c.flag("normalized", false)) z = scaled(c, z, 1 / std::sqrt(static_cast<double>(n)));
  std::vector<int> order;
  for (int k = 0; k < rank - 1; ++k) order.push_back(k);
  order.push_back(rank);
  order.push_back(rank - 1);
  z = {c.b.permute(z.real, order), c.b.permute(z.imaginary, order)};
  if (c.out_is_complex()) return set_parts(c, z);
  c.result(join(c, z));
}

}  // namespace

void add_complex_operators(OperatorTable* t) {
  t->add_complex("aten._to_copy", convert);
  t->add_complex("aten.to", convert);
  t->add_complex("aten.add", [](Context& c) { add_parts(c, 1); });
  t->add_complex("aten.sub", [](Context& c) { add_parts(c, -1); });
  t->add_complex("aten.mul", multiply);
  t->add_complex("aten.div", divide);
  t->add_complex("aten.neg", negate);
  t->add_complex("aten._conj", conjugate);
  t->add_complex("aten.conj", conjugate);
  t->add_complex("aten.conj_physical", conjugate);
  t->add_complex("aten._conj_physical", conjugate);
  t->add_complex("aten.real", real_part);
  t->add_complex("aten.imag", imaginary_part);
  t->add_complex("aten.abs", magnitude);
  t->add_complex("aten.exp", exponential);
  t->add_complex("aten.sum", total);
  t->add_complex("aten.mean", mean_of);
  t->add_complex("aten.complex", make_complex);
  t->add_complex("aten.polar", polar);
  t->add_complex("aten.view_as_real", [](Context& c) { c.set(c.any_tensor("self")); });
  t->add_complex("aten.view_as_complex", [](Context& c) { c.set_complex(c.any_tensor("self")); });
  t->add_complex("aten._fft_c2c", fft_c2c);
  t->add_complex("aten._fft_r2c", fft_r2c);
  t->add_complex("aten._fft_c2r", fft_c2r);
  t->add_complex("aten.fft_rfft", rfft);
  t->add_complex("aten.fft_irfft", irfft);
  t->add_complex("aten.fft_fft", [](Context& c) { fft(c, true); });
  t->add_complex("aten.fft_ifft", [](Context& c) { fft(c, false); });
  t->add_complex("aten.stft", stft);
  t->add("aten.real", real_part);
  t->add("aten.angle", angle);
  t->add_complex("aten.angle", angle);
}

}  // namespace clients
