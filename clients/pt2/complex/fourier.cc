// Fourier transforms, whole and short-time, of real and complex tensors.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/complex/complex.h"
#include "common/ir/hlir/fourier_form.h"

namespace clients {
namespace {

// Transforms of small factors are one operation, from so many points on. Others of at most
// kDirectLength points are one matrix product; longer ones are split by their
// factors (Cooley and Tukey), or become a convolution where the factors are large primes
// (Bluestein), so that work stays near n log n.
constexpr int64_t kWholeLength = 8;
constexpr int64_t kDirectLength = 64;
constexpr int64_t kMaxLength = int64_t{1} << 30;

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

Complex transform(Context& c, NodeId real, std::optional<NodeId> imaginary, int64_t n,
                  int64_t wanted, double sign);

// exp(sign * i pi p^2 / n) at the positions p, which is periodic in 2n.
Complex chirp(Context& c, NodeId position, int64_t n, double sign, DType d) {
  NodeId square =
      c.b.binary(BinaryOp::kMod, mul(c, position, position), c.b.scalar_int(DType::kInt64, 2 * n));
  NodeId angle = mul(c, c.b.cast(square, DType::kFloat64), sign * M_PI / static_cast<double>(n));
  return {c.b.cast(c.b.unary(UnaryOp::kCos, angle), d),
          c.b.cast(c.b.unary(UnaryOp::kSin, angle), d)};
}

// As 2pq = p^2 + q^2 - (q - p)^2, a transform is a convolution with a chirp, which transforms of a
// power of two do.
Complex chirp_transform(Context& c, NodeId real, std::optional<NodeId> imaginary, int64_t n,
                        int64_t wanted, double sign) {
  DType d = c.b.dtype(real);
  int64_t m = 1;
  while (m < n + wanted - 1) m *= 2;
  Complex x{real, imaginary ? *imaginary : zero_like(c, real)};
  x = times(c, x, chirp(c, c.b.iota(DType::kInt64, n), n, sign, d));
  int axis = c.b.rank(real) - 1;
  auto padded = [&](NodeId v) { return c.b.pad(v, axis, 0, m - n, 0); };
  Complex spectrum = transform(c, padded(x.real), padded(x.imaginary), m, m, -1);
  NodeId place = c.b.iota(DType::kInt64, m);
  NodeId back = c.b.binary(BinaryOp::kSub, c.b.scalar_int(DType::kInt64, m), place);
  NodeId ahead = less(c, place, static_cast<double>(wanted));
  NodeId behind = less(c, back, static_cast<double>(n));
  Complex kernel = chirp(c, c.b.select(ahead, place, back), n, -sign, d);
  NodeId inside = c.b.binary(BinaryOp::kOr, ahead, behind);
  auto kept = [&](NodeId v) {
    return c.b.unsqueeze(c.b.select(inside, v, number_like(c, v, 0)), 0);
  };
  Complex response = transform(c, kept(kernel.real), kept(kernel.imaginary), m, m, -1);
  Shape line = {m};
  response = {c.b.reshape(response.real, line), c.b.reshape(response.imaginary, line)};
  Complex product = times(c, spectrum, response);
  Complex y = transform(c, product.real, product.imaginary, m, wanted, 1);
  double scale = 1 / static_cast<double>(m);
  y = {mul(c, y.real, scale), mul(c, y.imaginary, scale)};
  return times(c, y, chirp(c, c.b.iota(DType::kInt64, wanted), n, sign, d));
}

// Along the last axis, whose length n is known; without an imaginary part the input is real.
// Gives the first `wanted` frequencies.
Complex transform(Context& c, NodeId real, std::optional<NodeId> imaginary, int64_t n,
                  int64_t wanted, double sign) {
  if (n >= kWholeLength && common::is_kernel_length(n)) {
    auto part = [&](bool is_imaginary) {
      return c.b.fourier(real, imaginary, {is_imaginary, sign > 0, wanted});
    };
    return {part(false), part(true)};
  }
  DType d = c.b.dtype(real);
  int64_t factor = n <= kDirectLength ? 1 : largest_factor(n);
  if (n > kDirectLength && factor == 1) {
    return chirp_transform(c, real, imaginary, n, wanted, sign);
  }
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
  std::vector<int> out = c.ordered_axes("dim", rank);
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

// Which axes a transform of several runs along, and the lengths to cut or pad them to.
struct Extended {
  int axis = 0;
  std::optional<int64_t> length;
};

enum class Default { kLast, kLastTwo, kAll };

std::vector<Extended> extents(Context& c, int rank, Default axes) {
  std::vector<Extended> out;
  auto wrapped = [&](int64_t axis) {
    int64_t k = axis < 0 ? axis + rank : axis;
    if (k < 0 || k >= rank) c.refuse("no such axis");
    return static_cast<int>(k);
  };
  if (axes == Default::kLast) {
    Extended one{wrapped(c.integer("dim", -1)), std::nullopt};
    if (c.has("n")) one.length = c.integer("n");
    return {one};
  }
  std::vector<int64_t> lengths = c.integers("s", {});
  std::vector<int64_t> dims = c.integers("dim", {});
  if (dims.empty()) {
    int64_t first = axes == Default::kLastTwo ? rank - 2 : 0;
    if (axes == Default::kAll && !lengths.empty()) {
      first = rank - static_cast<int64_t>(lengths.size());
    }
    for (int64_t k = first; k < rank; ++k) dims.push_back(k);
  }
  if (!lengths.empty() && lengths.size() != dims.size()) c.refuse("s and dim differ in length");
  for (size_t i = 0; i < dims.size(); ++i) {
    Extended one{wrapped(dims[i]), std::nullopt};
    if (!lengths.empty() && lengths[i] >= 0) one.length = lengths[i];
    out.push_back(one);
  }
  if (out.empty()) c.refuse("no axis is given");
  return out;
}

Complex with_lengths(Context& c, Complex z, const std::vector<Extended>& extents) {
  for (const Extended& extent : extents) {
    if (!extent.length) continue;
    z = {with_length(c, z.real, extent.axis, *extent.length),
         with_length(c, z.imaginary, extent.axis, *extent.length)};
  }
  return z;
}

void fft(Context& c, bool forward, Default axes) {
  Complex z = parts(c, "self", c.out_dtype());
  std::vector<Extended> along = extents(c, c.b.rank(z.real), axes);
  z = with_lengths(c, z, along);
  double points = 1;
  for (const Extended& extent : along) {
    points *= static_cast<double>(known_length(c, z.real, extent.axis));
    z = transform_axis(c, z, extent.axis, forward ? -1 : 1);
  }
  set_parts(c, scaled(c, z, normaliser(mode_of(c, forward), points)));
}

// A real tensor's spectrum, of which the last axis needs only half. `inverse`: that of ihfft, the
// conjugate with the scale of an inverse transform.
void rfft(Context& c, bool inverse, Default axes) {
  NodeId x = c.b.cast(c.tensor("self"), c.out_dtype());
  std::vector<Extended> along = extents(c, c.b.rank(x), axes);
  double points = 1;
  for (const Extended& extent : along) {
    if (extent.length) x = with_length(c, x, extent.axis, *extent.length);
    points *= static_cast<double>(known_length(c, x, extent.axis));
  }
  int last = along.back().axis;
  Complex z = transform_real_axis(c, x, last, known_length(c, x, last) / 2 + 1);
  if (inverse) z.imaginary = negated(c, z.imaginary);
  along.pop_back();
  for (const Extended& extent : along) z = transform_axis(c, z, extent.axis, inverse ? 1 : -1);
  set_parts(c, scaled(c, z, normaliser(mode_of(c, !inverse), points)));
}

// From half a spectrum to a real tensor. `forward`: that of hfft, whose input is conjugate and
// whose scale is a forward transform's.
void irfft(Context& c, bool forward, Default axes) {
  Complex z = parts(c, "self", c.out_dtype());
  if (forward) z.imaginary = negated(c, z.imaginary);
  std::vector<Extended> along = extents(c, c.b.rank(z.real), axes);
  int last = along.back().axis;
  int64_t n = along.back().length.value_or(2 * (known_length(c, z.real, last) - 1));
  along.back().length.reset();
  z = with_lengths(c, z, along);
  std::vector<int> order;
  for (const Extended& extent : along) order.push_back(extent.axis);
  inverse_real(c, z, order, n, mode_of(c, forward));
}

// Turns every axis by half its length, so that frequency zero comes to the middle or back.
void shift(Context& c, bool back) {
  NodeId x = c.tensor("self");
  int rank = c.b.rank(x);
  std::vector<int> axes = c.axes("dim", rank);
  View view = common::view_identity(c.b.shape(x));
  for (int axis : axes) {
    Expr n = c.b.size(x, axis);
    Expr half = common::floor_div(n, 2);
    Expr from = Expr::index(axis) + (back ? half : n - half);
    view.index[static_cast<size_t>(axis)] = common::mod(from, n);
  }
  c.set(c.b.view(x, view));
}

// The frequencies of a transform's results: 0, 1, ... and then, unless only half, negative ones.
void frequencies(Context& c, bool half) {
  int64_t n = c.integer("n");
  NodeId place = c.b.iota(DType::kInt64, c.out_size(0));
  if (!half) {
    NodeId high =
        c.b.binary(BinaryOp::kLessEqual, c.b.scalar_int(DType::kInt64, (n + 1) / 2), place);
    place = c.b.select(high, add(c, place, static_cast<double>(-n)), place);
  }
  DType d = float_dtype(c.out_dtype());
  double spacing = static_cast<double>(n) * c.number("d", 1);
  c.result(mul(c, c.b.cast(place, d), 1 / spacing));
}

// ---- Short-time transforms -------------------------------------------------------------------

// Numbers that stft and istft share. A window narrower than the frame is centred in it.
struct Framing {
  int64_t points = 0;
  int64_t hop = 0;
  NodeId window = 0;
  bool onesided = true;
  double scale = 1;  // of the spectrum
};

Framing framing(Context& c, DType d) {
  Framing f;
  f.points = c.integer("n_fft");
  f.hop = c.integer("hop_length", f.points / 4);
  int64_t width = c.integer("win_length", f.points);
  if (f.points < 1 || f.hop < 1 || width < 1 || width > f.points || f.points > kMaxLength) {
    c.refuse("the frame, its window or its hop has an impossible length");
  }
  auto given = c.optional_tensor("window");
  f.window = given ? c.b.cast(*given, d) : c.b.full(d, {width}, 1);
  int64_t left = (f.points - width) / 2;
  if (width != f.points) f.window = c.b.pad(f.window, 0, left, f.points - width - left, 0);
  f.onesided = c.flag("onesided", true);
  if (c.flag("normalized", false)) f.scale = 1 / std::sqrt(static_cast<double>(f.points));
  return f;
}

NodeId last_two_swapped(Context& c, NodeId x) {
  std::vector<int> order(static_cast<size_t>(c.b.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.b.permute(x, order);
}

// The signal with half a frame on either side, as centred frames need it.
NodeId centred(Context& c, NodeId x, int64_t points) {
  int axis = c.b.rank(x) - 1;
  Expr margin = points / 2;
  Expr n = c.b.size(x, axis);
  std::string mode = c.text("pad_mode", "reflect");
  if (mode == "constant") return c.b.pad(x, axis, margin, margin, 0);
  View view = common::view_identity(c.b.shape(x));
  view.shape.back() = c.b.simplify(n + margin * 2);
  Expr inside = Expr::index(axis) - margin;
  if (mode == "replicate") {
    view.index.back() = common::min(common::max(inside, 0), n - 1);
  } else if (mode == "circular") {
    view.index.back() = common::mod(inside, n);
  } else if (mode == "reflect") {
    Expr low = common::max(inside, -inside);
    view.index.back() = common::min(low, Expr(2) * (n - 1) - low);
  } else {
    c.refuse("unknown padding mode");
  }
  return c.b.view(x, view);
}

// Overlapping windowed frames and their spectra: (batch, frequency, frame).
void stft(Context& c) {
  if (c.is_complex("self")) c.refuse("complex signals are not supported");
  NodeId x = float_tensor(c, "self");
  if (c.b.rank(x) < 1) c.refuse("it takes a signal");
  if (c.flag("align_to_window", false)) c.refuse("frames aligned to windows are not supported");
  Framing f = framing(c, c.b.dtype(x));
  if (c.flag("center", false)) x = centred(c, x, f.points);
  int rank = c.b.rank(x);
  Expr frames = c.b.simplify(common::floor_div(c.b.size(x, rank - 1) - Expr(f.points), f.hop) + 1);
  NodeId framed = c.b.view(x, common::view_unfold(c.b.shape(x), rank - 1, frames, f.points, f.hop));
  framed = mul(c, framed, f.window);
  Complex z = transform_real_axis(c, framed, rank, f.onesided ? f.points / 2 + 1 : f.points);
  z = scaled(c, z, f.scale);
  z = {last_two_swapped(c, z.real), last_two_swapped(c, z.imaginary)};
  if (c.out_is_complex()) return set_parts(c, z);
  c.result(join(c, z));
}

// Sums overlapping frames (..., frame, point) where they lie in the signal (..., position): place
// p is point (p mod hop) + j hop of frame (p div hop) - j, for each j that may be.
NodeId overlapped(Context& c, NodeId frames, const Framing& f) {
  int rank = c.b.rank(frames);
  Expr number = c.b.size(frames, rank - 2);
  Expr length = c.b.simplify((number - 1) * Expr(f.hop) + Expr(f.points));
  View view = common::view_identity(c.b.shape(frames));
  view.shape[static_cast<size_t>(rank - 2)] = length;
  view.shape[static_cast<size_t>(rank - 1)] = (f.points + f.hop - 1) / f.hop;
  Expr place = Expr::index(rank - 2);
  Expr back = Expr::index(rank - 1);
  Expr frame = common::floor_div(place, f.hop) - back;
  Expr point = common::mod(place, f.hop) + back * Expr(f.hop);
  view.index[static_cast<size_t>(rank - 2)] = frame;
  view.index[static_cast<size_t>(rank - 1)] = point;
  view.valid = {{frame, number}, {point, f.points}};
  return c.b.reduce(ReduceOp::kSum, c.b.view(frames, view), {rank - 1});
}

// The signal whose spectra these are: frames added up and divided by what the windows add up to.
void istft(Context& c) {
  if (c.flag("return_complex", false)) c.refuse("complex signals are not supported");
  DType d = c.out_dtype();
  Complex z = parts(c, "self", d);
  if (c.b.rank(z.real) < 2) c.refuse("it takes (frequency, frame)");
  Framing f = framing(c, d);
  z = {last_two_swapped(c, z.real), last_two_swapped(c, z.imaginary)};
  int axis = c.b.rank(z.real) - 1;
  double scale = 1 / (static_cast<double>(f.points) * f.scale);
  // Of a spectrum on both sides PyTorch, too, reads the half that a real signal has.
  if (!f.onesided) {
    auto half = [&](NodeId x) { return c.b.slice(x, axis, 0, f.points / 2 + 1); };
    z = {half(z.real), half(z.imaginary)};
  }
  Complex whole = mirrored(c, z, axis, f.points);
  NodeId frames = mul(c, transform_axis(c, whole, axis, 1).real, scale);
  Shape all = c.b.shape(frames);
  NodeId signal = overlapped(c, mul(c, frames, f.window), f);
  NodeId squares = c.b.expand(mul(c, f.window, f.window), Sizes(all).last(2));
  signal = div(c, signal, overlapped(c, squares, f));
  int64_t start = c.flag("center", true) ? f.points / 2 : 0;
  int last = c.b.rank(signal) - 1;
  Expr present = c.b.size(signal, last) - Expr(start);
  Expr wanted = c.out_size(static_cast<int>(c.out_shape().size()) - 1);
  // A length beyond the frames' end is filled with zeros.
  Expr kept = c.b.simplify(common::min(present, wanted));
  signal = c.b.slice(signal, last, start, kept);
  if (!c.b.simplify(wanted - kept).is_constant(0)) {
    signal = c.b.pad(signal, last, 0, c.b.simplify(wanted - kept), 0);
  }
  c.result(signal);
}

}  // namespace

void add_fourier_operators(OperatorTable* t) {
  t->add_complex("aten._fft_c2c", fft_c2c);
  t->add_complex("aten._fft_r2c", fft_r2c);
  t->add_complex("aten._fft_c2r", fft_c2r);
  t->add_complex("aten.fft_fft", [](Context& c) { fft(c, true, Default::kLast); });
  t->add_complex("aten.fft_ifft", [](Context& c) { fft(c, false, Default::kLast); });
  t->add_complex("aten.fft_fft2", [](Context& c) { fft(c, true, Default::kLastTwo); });
  t->add_complex("aten.fft_ifft2", [](Context& c) { fft(c, false, Default::kLastTwo); });
  t->add_complex("aten.fft_fftn", [](Context& c) { fft(c, true, Default::kAll); });
  t->add_complex("aten.fft_ifftn", [](Context& c) { fft(c, false, Default::kAll); });
  t->add_complex("aten.fft_rfft", [](Context& c) { rfft(c, false, Default::kLast); });
  t->add_complex("aten.fft_rfft2", [](Context& c) { rfft(c, false, Default::kLastTwo); });
  t->add_complex("aten.fft_rfftn", [](Context& c) { rfft(c, false, Default::kAll); });
  t->add_complex("aten.fft_ihfft", [](Context& c) { rfft(c, true, Default::kLast); });
  t->add_complex("aten.fft_ihfft2", [](Context& c) { rfft(c, true, Default::kLastTwo); });
  t->add_complex("aten.fft_ihfftn", [](Context& c) { rfft(c, true, Default::kAll); });
  // Those that give real tensors also take real ones.
  t->add("aten.fft_irfft", [](Context& c) { irfft(c, false, Default::kLast); });
  t->add("aten.fft_irfft2", [](Context& c) { irfft(c, false, Default::kLastTwo); });
  t->add("aten.fft_irfftn", [](Context& c) { irfft(c, false, Default::kAll); });
  t->add("aten.fft_hfft", [](Context& c) { irfft(c, true, Default::kLast); });
  t->add("aten.fft_hfft2", [](Context& c) { irfft(c, true, Default::kLastTwo); });
  t->add("aten.fft_hfftn", [](Context& c) { irfft(c, true, Default::kAll); });
  t->add("aten.fft_fftshift", [](Context& c) { shift(c, false); });
  t->add_linear("aten.fft_fftshift");
  t->add("aten.fft_ifftshift", [](Context& c) { shift(c, true); });
  t->add_linear("aten.fft_ifftshift");
  t->add("aten.fft_fftfreq", [](Context& c) { frequencies(c, false); });
  t->add("aten.fft_rfftfreq", [](Context& c) { frequencies(c, true); });
  t->add("aten.stft", stft);
  t->add("aten.istft", istft);
}

}  // namespace clients
