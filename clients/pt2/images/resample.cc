// Resampling of images: nearest, linear and cubic interpolation, grids, pixel shuffles.
#include <algorithm>
#include <cmath>
#include <optional>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;
using common::Coordinate;

// The factor that a spatial axis is said to grow by; empty when only the sizes tell.
std::optional<double> factor_of(Context& c, size_t axis, size_t axes) {
  if (const auto* factors = c.floats("scale_factors")) {
    if (axis < factors->size()) return (*factors)[axis];
  }
  constexpr std::string_view kNames[] = {"scales_d", "scales_h", "scales_w"};
  std::string_view name = axes == 1 ? "scales" : kNames[3 - axes + axis];
  if (c.has(name)) return c.number(name, 0);
  return std::nullopt;
}

struct Lengths {
  Expr in;
  Expr out;
};

// How far apart input positions of neighbouring output positions are, when that is a constant.
std::optional<double> known_step(Context& c, const Lengths& sizes, bool align_corners, size_t axis,
                                 size_t axes) {
  auto factor = factor_of(c, axis, axes);
  if (!align_corners && factor && *factor > 0) return 1 / *factor;
  if (!sizes.in.is_constant() || !sizes.out.is_constant()) return std::nullopt;
  auto in = static_cast<double>(sizes.in.constant());
  auto out = static_cast<double>(sizes.out.constant());
  if (!align_corners) return in / out;
  return out > 1 ? (in - 1) / (out - 1) : 0;
}

double constant_step(Context& c, const Lengths& sizes, bool align_corners, size_t axis,
                     size_t axes) {
  auto step = known_step(c, sizes, align_corners, axis, axes);
  if (!step) c.refuse("symbolic sizes are not supported here");
  return *step;
}

NodeId step_between(Context& c, const Lengths& sizes, bool align_corners, size_t axis, size_t axes,
                    DType d) {
  if (auto step = known_step(c, sizes, align_corners, axis, axes)) return c.b.scalar(d, *step);
  auto size = [&](const Expr& value) { return c.b.size_scalar(d, value); };
  if (!align_corners) return div(c, size(sizes.in), size(sizes.out));
  // A single position reads the first one.
  return div(c, size(sizes.in - 1), maximum(c, size(sizes.out - 1), 1));
}

Lengths lengths(Context& c, NodeId x, int axis) { return {c.b.size(x, axis), c.out_size(axis)}; }

NodeId pick_along(Context& c, NodeId x, int axis, NodeId index) {
  int rank = c.b.rank(x);
  Sizes shape = c.b.shape(x);
  shape[at(axis)] = c.b.size(index, 0);
  Shape line(at(rank), Expr(1));
  line[at(axis)] = shape[at(axis)];
  return c.b.gather(x, {c.b.reshape(index, line)}, shape, along(rank, axis));
}

int spatial_axes(Context& c, NodeId x) {
  int axes = c.b.rank(x) - 2;
  if (axes < 1 || axes > 3) c.refuse("it takes (batch, channel, one to three spatial axes)");
  return axes;
}

// The input position that each output position reads. exact: positions are pixels' middles, as
// other libraries have them.
NodeId nearest_places(Context& c, const Lengths& sizes, size_t axis, size_t axes, bool exact) {
  NodeId step = step_between(c, sizes, false, axis, axes, DType::kFloat32);
  NodeId place = c.b.iota(DType::kFloat32, sizes.out);
  if (exact) place = add(c, place, 0.5);
  return c.b.cast(c.b.unary(UnaryOp::kFloor, mul(c, place, step)), DType::kInt64);
}

void upsample_nearest(Context& c, bool exact) {
  NodeId x = c.tensor("input");
  size_t axes = at(spatial_axes(c, x));
  for (int axis = 2; axis < c.b.rank(x); ++axis) {
    Lengths sizes = lengths(c, x, axis);
    x = pick_along(c, x, axis, nearest_places(c, sizes, at(axis - 2), axes, exact));
  }
  c.set(x);
}

// What an output position reads along an axis: positions and weights, both (out, taps). Positions
// outside are the nearest ones inside.
struct Taps {
  NodeId place = 0;  // float, whole
  NodeId weight = 0;
};

NodeId weighted_sum(Context& c, NodeId x, int axis, const Taps& taps) {
  int rank = c.b.rank(x);
  Sizes grid = c.b.shape(taps.place);
  Expr last = c.b.size(x, axis) - 1;
  Shape shape = c.b.shape(x);
  shape[at(axis)] = grid[0];
  shape.insert(shape.begin() + axis + 1, grid[1]);
  Shape line(shape.size(), Expr(1));
  line[at(axis)] = grid[0];
  line[at(axis) + 1] = grid[1];
  std::vector<Coordinate> where;
  for (int k = 0; k < rank; ++k) {
    where.push_back(k == axis ? Coordinate{0, {}}
                              : Coordinate{-1, Expr::index(k < axis ? k : k + 1)});
  }
  NodeId inside = c.b.binary(BinaryOp::kMin, maximum(c, taps.place, 0),
                             c.b.size_scalar(c.b.dtype(taps.place), last));
  NodeId index = c.b.reshape(c.b.cast(inside, DType::kInt64), line);
  NodeId values = c.b.gather(x, {index}, shape, where);
  return c.b.reduce(ReduceOp::kSum, mul(c, values, c.b.reshape(taps.weight, line)), {axis + 1});
}

// PyTorch's cubic convolution of a distance of at most two.
NodeId cubic_weight(Context& c, NodeId distance, double a) {
  NodeId x = c.b.unary(UnaryOp::kAbs, distance);
  auto times = [&](NodeId u, NodeId v) { return mul(c, u, v); };
  NodeId near = add(c, times(times(add(c, mul(c, x, a + 2), -(a + 3)), x), x), 1.0);
  NodeId far = add(c, times(add(c, times(add(c, mul(c, x, a), -5 * a), x), 8 * a), x), -4 * a);
  NodeId zero = number_like(c, x, 0);
  return c.b.select(less(c, x, 1), near, c.b.select(less(c, x, 2), far, zero));
}

NodeId linear_weight(Context& c, NodeId distance) {
  return maximum(c, sub(c, number_like(c, distance, 1), c.b.unary(UnaryOp::kAbs, distance)), 0);
}

enum class Kernel { kLinear, kCubic };

// Two or four neighbours of each position.
Taps neighbours(Context& c, Kernel kernel, const Expr& out, NodeId step, bool align) {
  DType d = c.b.dtype(step);
  NodeId place = c.b.iota(d, out);
  NodeId from = align ? mul(c, place, step) : add(c, mul(c, add(c, place, 0.5), step), -0.5);
  if (kernel == Kernel::kLinear && !align) from = maximum(c, from, 0);
  from = c.b.unsqueeze(from, 1);
  bool linear = kernel == Kernel::kLinear;
  NodeId offset = add(c, c.b.iota(d, linear ? 2 : 4), linear ? 0.0 : -1.0);
  NodeId below = c.b.unary(UnaryOp::kFloor, from);
  NodeId tap = add(c, below, c.b.unsqueeze(offset, 0));
  NodeId distance = sub(c, tap, from);
  NodeId weight = linear ? linear_weight(c, distance) : cubic_weight(c, distance, -0.75);
  return {tap, weight};
}

// Everything under a filter that is widened where the image shrinks, normalised.
Taps antialiased(Context& c, Kernel kernel, const Lengths& sizes, double step, DType d) {
  bool linear = kernel == Kernel::kLinear;
  double stretch = std::max(step, 1.0);
  double reach = (linear ? 1.0 : 2.0) * stretch;
  auto width = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  NodeId centre = c.b.unsqueeze(mul(c, add(c, c.b.iota(d, sizes.out), 0.5), step), 1);
  NodeId first = maximum(c, c.b.unary(UnaryOp::kTrunc, add(c, centre, 0.5 - reach)), 0);
  NodeId end = c.b.binary(BinaryOp::kMin, c.b.unary(UnaryOp::kTrunc, add(c, centre, 0.5 + reach)),
                          c.b.size_scalar(d, sizes.in));
  NodeId tap = add(c, first, c.b.unsqueeze(c.b.iota(d, width), 0));
  NodeId distance = mul(c, add(c, sub(c, tap, centre), 0.5), 1 / stretch);
  NodeId weight = linear ? linear_weight(c, distance) : cubic_weight(c, distance, -0.5);
  weight = c.b.select(c.b.binary(BinaryOp::kLess, tap, end), weight, number_like(c, weight, 0));
  return {tap, div(c, weight, c.b.reduce(ReduceOp::kSum, weight, {1}, true))};
}

// Interpolates along each spatial axis in turn, the last one first.
void upsample(Context& c, Kernel kernel, bool antialias) {
  NodeId given = c.tensor("input");
  bool whole = !common::is_float(c.b.dtype(given));
  NodeId x = float_tensor(c, "input");
  bool align = c.flag("align_corners", false);
  DType d = c.b.dtype(x);
  size_t axes = at(spatial_axes(c, x));
  for (int axis = c.b.rank(x) - 1; axis >= 2; --axis) {
    Lengths sizes = lengths(c, x, axis);
    size_t k = at(axis - 2);
    Taps taps =
        antialias
            ? antialiased(c, kernel, sizes, constant_step(c, sizes, align, k, axes), d)
            : neighbours(c, kernel, sizes.out, step_between(c, sizes, align, k, axes, d), align);
    x = weighted_sum(c, x, axis, taps);
    if (!whole) continue;
    // Bytes are rounded after each axis.
    x = c.b.unary(UnaryOp::kFloor, add(c, x, 0.5));
    x = minimum(c, maximum(c, x, 0), 255);
  }
  c.result(x);
}

// The gradient of an interpolation along one axis: a product with the matrix that holds how much of
// each input position every output position takes.
NodeId transposed_sum(Context& c, NodeId g, int axis, const Expr& size, const Taps& taps) {
  DType d = c.b.dtype(g);
  NodeId last = c.b.size_scalar(d, size - 1);
  NodeId inside = c.b.binary(BinaryOp::kMin, maximum(c, taps.place, 0), last);
  NodeId column = positions(c, size, 2, 3, d);
  NodeId own = c.b.binary(BinaryOp::kEqual, c.b.unsqueeze(inside, 2), column);
  NodeId weight = c.b.expand(taps.weight, c.b.shape(taps.place));
  NodeId share = c.b.select(own, c.b.unsqueeze(weight, 2), number_like(c, weight, 0));
  NodeId matrix = c.b.reduce(ReduceOp::kSum, share, {1});  // (out, in)
  std::vector<int> order;
  for (int k = 0; k < c.b.rank(g); ++k) {
    if (k != axis) order.push_back(k);
  }
  order.push_back(axis);
  NodeId product = c.b.matmul(c.b.permute(g, order), matrix);
  std::vector<int> back;
  for (int k = 0; k < axis; ++k) back.push_back(k);
  back.push_back(c.b.rank(g) - 1);
  for (int k = axis; k + 1 < c.b.rank(g); ++k) back.push_back(k);
  return c.b.permute(product, back);
}

void upsample_backward(Context& c, Kernel kernel, bool antialias) {
  NodeId g = float_tensor(c, "grad_output");
  bool align = c.flag("align_corners", false);
  DType d = c.b.dtype(g);
  size_t axes = at(spatial_axes(c, g));
  for (int axis = 2; axis < c.b.rank(g); ++axis) {
    Lengths sizes{c.out_size(axis), c.b.size(g, axis)};
    size_t k = at(axis - 2);
    Taps taps =
        antialias
            ? antialiased(c, kernel, sizes, constant_step(c, sizes, align, k, axes), d)
            : neighbours(c, kernel, sizes.out, step_between(c, sizes, align, k, axes, d), align);
    g = transposed_sum(c, g, axis, sizes.in, taps);
  }
  c.result(g);
}

void upsample_nearest_backward(Context& c, bool exact) {
  NodeId g = float_tensor(c, "grad_output");
  size_t axes = at(spatial_axes(c, g));
  int rank = c.b.rank(g);
  for (int axis = 2; axis < rank; ++axis) {
    Lengths sizes{c.out_size(axis), c.b.size(g, axis)};
    Sizes shape = c.b.shape(g);
    shape[at(axis)] = sizes.in;
    Shape line(at(rank), Expr(1));
    line[at(axis)] = sizes.out;
    NodeId from = c.b.reshape(nearest_places(c, sizes, at(axis - 2), axes, exact), line);
    NodeId place = c.b.expand(from, c.b.shape(g));
    g = c.b.scatter(ScatterMode::kAdd, c.b.full(c.b.dtype(g), shape, 0), g, {place},
                    along(rank, axis));
  }
  c.result(g);
}

// Reflects a coordinate at the borders of [low, low + span].
NodeId reflected(Context& c, NodeId x, double low, double span) {
  if (span <= 0) return mul(c, x, 0.0);
  NodeId away = c.b.unary(UnaryOp::kAbs, add(c, x, -low));
  NodeId extra = c.b.binary(BinaryOp::kFmod, away, number_like(c, x, span));
  NodeId flips = c.b.unary(UnaryOp::kFloor, div(c, away, number_like(c, x, span)));
  NodeId odd = c.b.binary(BinaryOp::kEqual, c.b.binary(BinaryOp::kMod, flips, number_like(c, x, 2)),
                          number_like(c, x, 1));
  NodeId back = sub(c, number_like(c, x, span + low), extra);
  return c.b.select(odd, back, add(c, extra, low));
}

// A grid sampler's arguments.
struct Sampler {
  Kernel kernel = Kernel::kLinear;
  bool nearest = false;
  int64_t padding = 0;  // zeros, border, reflection
  bool align = false;
};

// In half precision PyTorch rounds after every step, and coordinates are coarse enough to show it.
NodeId at_border(Context& c, const Sampler& s, NodeId p, double n) {
  if (s.padding == 2) p = s.align ? reflected(c, p, 0, n - 1) : reflected(c, p, -0.5, n);
  return s.padding == 0 ? p : minimum(c, maximum(c, p, 0), n - 1);
}

// One tap along one axis: where it reads and its weight, zero outside of the image.
struct Tap {
  NodeId index = 0;
  NodeId weight = 0;
  NodeId inside = 0;
};

std::vector<Tap> taps_along(Context& c, const Sampler& s, NodeId place, double n) {
  DType narrow = c.out_dtype();
  auto inside = [&](NodeId at_tap) {
    return c.b.binary(BinaryOp::kAnd,
                      c.b.binary(BinaryOp::kLessEqual, number_like(c, at_tap, 0), at_tap),
                      less(c, at_tap, n));
  };
  auto tap = [&](NodeId at_tap, NodeId weight) {
    NodeId is_inside = inside(at_tap);
    NodeId kept = c.b.select(is_inside, weight, number_like(c, weight, 0));
    return Tap{c.b.cast(at_tap, DType::kInt64), kept, is_inside};
  };
  if (s.nearest) {
    NodeId whole = c.b.unary(UnaryOp::kRound, place);
    return {tap(whole, c.b.full(c.b.dtype(place), c.b.shape(place), 1))};
  }
  NodeId below = c.b.unary(UnaryOp::kFloor, place);
  NodeId share = rounded(c, sub(c, place, below));
  if (s.kernel == Kernel::kLinear) {
    return {tap(below, rounded(c, sub(c, number_like(c, share, 1), share))),
            tap(add(c, below, 1.0), share)};
  }
  if (common::is_half(narrow)) c.refuse("cubic interpolation of half types is not supported");
  std::vector<Tap> out;
  for (int k = -1; k <= 2; ++k) {
    NodeId weight = cubic_weight(c, add(c, share, -static_cast<double>(k)), -0.75);
    out.push_back(tap(at_border(c, s, add(c, below, static_cast<double>(k)), n), weight));
  }
  return out;
}

Sampler sampler_of(Context& c) {
  int64_t mode = c.integer("interpolation_mode", 0);
  return {mode == 2 ? Kernel::kCubic : Kernel::kLinear, mode == 1, c.integer("padding_mode", 0),
          c.flag("align_corners", false)};
}

// Where a grid reads along one axis of an image.
struct Along {
  double size = 0;
  NodeId place = 0;  // (batch, 1, *out), before the padding moves it
  std::vector<Tap> taps;
};

// The grid's last axis holds coordinates in [-1, 1], x first.
std::vector<Along> sampled(Context& c, const Sampler& s, NodeId x, NodeId grid) {
  int spatial = c.b.rank(x) - 2;
  if (spatial < 2 || spatial > 3 || c.b.rank(grid) != spatial + 2) c.refuse("the ranks differ");
  std::vector<Along> out;
  for (int k = 0; k < spatial; ++k) {
    Expr size = c.b.size(x, 2 + k);
    if (!size.is_constant()) c.refuse("symbolic sizes are not supported here");
    auto n = static_cast<double>(size.constant());
    NodeId g = c.b.slice(grid, spatial + 1, spatial - 1 - k, 1);
    g = c.b.unsqueeze(c.b.squeeze(g, spatial + 1), 1);  // (batch, 1, *out)
    NodeId shifted = rounded(c, add(c, g, 1.0));
    NodeId place = s.align ? rounded(c, mul(c, shifted, (n - 1) / 2))
                           : rounded(c, add(c, rounded(c, mul(c, shifted, n / 2)), -0.5));
    NodeId p = s.kernel == Kernel::kLinear ? at_border(c, s, place, n) : place;
    out.push_back({n, place, taps_along(c, s, p, n)});
  }
  return out;
}

// Calls `visit` with one tap of each axis, for every choice of them.
template <class Visit>
void for_corners(const std::vector<Along>& axes, Visit visit) {
  size_t each = axes[0].taps.size();
  size_t corners = 1;
  for (size_t k = 0; k < axes.size(); ++k) corners *= each;
  for (size_t corner = 0; corner < corners; ++corner) {
    std::vector<size_t> chosen;
    size_t rest = corner;
    for (size_t k = 0; k < axes.size(); ++k, rest /= each) chosen.push_back(rest % each);
    visit(chosen);
  }
}

std::vector<Coordinate> image_coordinates(size_t spatial) {
  std::vector<Coordinate> out = {{-1, Expr::index(0)}, {-1, Expr::index(1)}};
  for (size_t k = 0; k < spatial; ++k) out.push_back({static_cast<int>(k), {}});
  return out;
}

void grid_sample(Context& c) {
  NodeId x = float_tensor(c, "input");
  std::vector<Along> axes = sampled(c, sampler_of(c), x, float_tensor(c, "grid"));
  Sizes out = c.out_shape();
  NodeId total = c.b.full(c.b.dtype(x), out, 0);
  for_corners(axes, [&](const std::vector<size_t>& chosen) {
    std::vector<NodeId> indices;
    NodeId weight = number_like(c, x, 1);
    for (size_t k = 0; k < axes.size(); ++k) {
      const Tap& tap = axes[k].taps[chosen[k]];
      weight = rounded(c, mul(c, weight, tap.weight));
      indices.push_back(tap.index);
    }
    NodeId value = c.b.gather(x, indices, out, image_coordinates(axes.size()));
    total = rounded(c, add(c, total, rounded(c, mul(c, value, weight))));
  });
  c.result(total);
}

// How much a place moves with its coordinate: not at all where the padding holds it, and backwards
// where a reflection has turned it.
NodeId place_slope(Context& c, const Sampler& s, const Along& axis) {
  double n = axis.size;
  NodeId p = axis.place;
  NodeId slope = number_like(c, p, s.align ? (n - 1) / 2 : n / 2);
  if (s.padding == 0) return c.b.expand(slope, c.b.shape(p));
  if (s.padding == 2) {
    double low = s.align ? 0 : -0.5;
    double span = s.align ? n - 1 : n;
    if (span <= 0) return mul(c, p, 0.0);
    NodeId away = add(c, p, -low);
    NodeId flips = c.b.unary(UnaryOp::kFloor,
                             div(c, c.b.unary(UnaryOp::kAbs, away), number_like(c, away, span)));
    NodeId odd = c.b.binary(BinaryOp::kMod, flips, number_like(c, flips, 2));
    NodeId turned = c.b.binary(BinaryOp::kNotEqual, less(c, away, 0), truth(c, odd));
    slope = c.b.select(turned, c.b.unary(UnaryOp::kNeg, slope), slope);
    p = reflected(c, p, low, span);
  }
  NodeId moves = c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kLess, number_like(c, p, 0), p),
                            less(c, p, n - 1));
  return c.b.select(moves, slope, number_like(c, slope, 0));
}

// Gradients to the image, added up where its elements were read, and to the grid, by how the
// weights of the two neighbours along an axis change.
void grid_sample_backward(Context& c) {
  NodeId x = float_tensor(c, "input");
  NodeId g = c.b.cast(c.tensor("grad_output"), c.b.dtype(x));
  Sampler s = sampler_of(c);
  std::vector<Along> axes = sampled(c, s, x, float_tensor(c, "grid"));
  size_t spatial = axes.size();
  Sizes out = c.b.shape(g);
  NodeId zero = number_like(c, x, 0);
  NodeId to_image = c.b.full(c.b.dtype(x), c.b.shape(x), 0);
  std::vector<NodeId> to_place(spatial, zero);
  if (s.kernel == Kernel::kCubic) c.refuse("the gradient of cubic sampling is not supported");
  for_corners(axes, [&](const std::vector<size_t>& chosen) {
    std::vector<NodeId> indices;
    NodeId weight = number_like(c, x, 1);
    for (size_t k = 0; k < spatial; ++k) {
      const Tap& tap = axes[k].taps[chosen[k]];
      weight = mul(c, weight, tap.weight);
      indices.push_back(c.b.expand(tap.index, out));
    }
    NodeId share = c.b.expand(mul(c, g, weight), out);
    to_image = c.b.scatter(ScatterMode::kAdd, to_image, share, indices, image_coordinates(spatial));
    if (s.nearest) return;
    NodeId product = mul(c, g, c.b.gather(x, indices, out, image_coordinates(spatial)));
    NodeId value = c.b.reduce(ReduceOp::kSum, product, {1}, true);
    for (size_t k = 0; k < spatial; ++k) {
      NodeId term = chosen[k] == 0 ? c.b.unary(UnaryOp::kNeg, value) : value;
      for (size_t other = 0; other < spatial; ++other) {
        if (other != k) term = mul(c, term, axes[other].taps[chosen[other]].weight);
      }
      NodeId inside = axes[k].taps[chosen[k]].inside;
      to_place[k] = add(c, to_place[k], c.b.select(inside, term, zero));
    }
  });
  c.result(to_image);
  if (!c.wants_output(1)) return;
  std::vector<NodeId> columns;
  Shape column = c.out_shape(1);
  column.back() = 1;
  for (size_t k = spatial; k-- > 0;) {
    NodeId moved = mul(c, to_place[k], place_slope(c, s, axes[k]));
    columns.push_back(c.b.reshape(moved, column));
  }
  c.result(c.b.concat(columns, static_cast<int>(column.size()) - 1), 1);
}

void pixel_shuffle(Context& c) {
  NodeId x = c.tensor("self");
  int64_t r = c.integer("upscale_factor");
  Sizes s = c.b.shape(x);
  size_t n = s.size();
  if (n < 3) c.refuse("it takes images");
  auto channels = common::exact_div(s[n - 3], r * r);
  if (!channels) c.refuse("the factor does not divide the channels");
  Shape split = s.without_last(3);
  int lead = static_cast<int>(split.size());
  split.insert(split.end(), {*channels, r, r, s[n - 2], s[n - 1]});
  std::vector<int> order;
  for (int k = 0; k <= lead; ++k) order.push_back(k);
  for (int k : {3, 1, 4, 2}) order.push_back(lead + k);
  c.set(c.b.reshape(c.b.permute(c.b.reshape(x, split), order), c.out_shape()));
}

void pixel_unshuffle(Context& c) {
  NodeId x = c.tensor("self");
  int64_t r = c.integer("downscale_factor");
  Sizes s = c.b.shape(x);
  size_t n = s.size();
  if (n < 3) c.refuse("it takes images");
  auto height = common::exact_div(s[n - 2], r);
  auto width = common::exact_div(s[n - 1], r);
  if (!height || !width) c.refuse("the factor does not divide the sizes");
  Shape split = s.without_last(2);
  int lead = static_cast<int>(split.size());
  split.insert(split.end(), {*height, r, *width, r});
  std::vector<int> order;
  for (int k = 0; k < lead; ++k) order.push_back(k);
  for (int k : {1, 3, 0, 2}) order.push_back(lead + k);
  c.set(c.b.reshape(c.b.permute(c.b.reshape(x, split), order), c.out_shape()));
}

}  // namespace

void add_resample_operators(OperatorTable* t) {
  for (const char* name :
       {"aten.upsample_nearest1d", "aten.upsample_nearest2d", "aten.upsample_nearest3d"}) {
    t->add(name, [](Context& c) { upsample_nearest(c, false); });
  }
  for (const char* name : {"aten._upsample_nearest_exact1d", "aten._upsample_nearest_exact2d",
                           "aten._upsample_nearest_exact3d"}) {
    t->add(name, [](Context& c) { upsample_nearest(c, true); });
  }
  for (const char* name :
       {"aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d"}) {
    t->add(name, [](Context& c) { upsample(c, Kernel::kLinear, false); });
  }
  t->add("aten.upsample_bicubic2d", [](Context& c) { upsample(c, Kernel::kCubic, false); });
  t->add("aten._upsample_bilinear2d_aa", [](Context& c) { upsample(c, Kernel::kLinear, true); });
  t->add("aten._upsample_bicubic2d_aa", [](Context& c) { upsample(c, Kernel::kCubic, true); });
  for (const char* name : {"aten.upsample_nearest1d_backward", "aten.upsample_nearest2d_backward",
                           "aten.upsample_nearest3d_backward"}) {
    t->add(name, [](Context& c) { upsample_nearest_backward(c, false); });
  }
  for (const char* name :
       {"aten._upsample_nearest_exact1d_backward", "aten._upsample_nearest_exact2d_backward",
        "aten._upsample_nearest_exact3d_backward"}) {
    t->add(name, [](Context& c) { upsample_nearest_backward(c, true); });
  }
  for (const char* name : {"aten.upsample_linear1d_backward", "aten.upsample_bilinear2d_backward",
                           "aten.upsample_trilinear3d_backward"}) {
    t->add(name, [](Context& c) { upsample_backward(c, Kernel::kLinear, false); });
  }
  t->add("aten.upsample_bicubic2d_backward",
         [](Context& c) { upsample_backward(c, Kernel::kCubic, false); });
  t->add("aten._upsample_bilinear2d_aa_backward",
         [](Context& c) { upsample_backward(c, Kernel::kLinear, true); });
  t->add("aten._upsample_bicubic2d_aa_backward",
         [](Context& c) { upsample_backward(c, Kernel::kCubic, true); });
  for (const char* name : {"aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d"}) {
    t->add(name, grid_sample);
  }
  t->add("aten.grid_sampler_2d_backward", grid_sample_backward);
  t->add("aten.grid_sampler_3d_backward", grid_sample_backward);
  t->add("aten.pixel_shuffle", pixel_shuffle);
  t->add("aten.pixel_unshuffle", pixel_unshuffle);
}

}  // namespace clients
