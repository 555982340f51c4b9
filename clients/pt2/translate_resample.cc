// Resampling of images: nearest and linear interpolation, grids, pixel shuffles.
#include <cmath>

#include "clients/pt2/operators.h"
#include "clients/pt2/translate_math.h"

namespace clients {
namespace {

using common::Coordinate;

size_t at(int axis) { return static_cast<size_t>(axis); }

// How far apart input positions of neighbouring output positions are.
double step_between(Context& c, int64_t in, int64_t out, bool align_corners, size_t axis) {
  if (align_corners)
    return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (c.has("scale_factors")) {
    if (const auto* factors = c.floats("scale_factors")) {
      if (axis < factors->size() && (*factors)[axis] > 0) return 1 / (*factors)[axis];
    }
  }
  return static_cast<double>(in) / static_cast<double>(out);
}

struct Lengths {
  int64_t in = 0;
  int64_t out = 0;
};
Lengths known_sizes(Context& c, NodeId x, int axis) {
  Expr in = c.b.size(x, axis);
  Expr out = c.out_size(axis);
  if (!in.is_constant() || !out.is_constant()) c.refuse("symbolic sizes are not supported here");
  return {in.constant(), out.constant()};
}

NodeId pick_along(Context& c, NodeId x, int axis, NodeId index) {
  int rank = c.b.rank(x);
  Sizes shape = c.b.shape(x);
  shape[at(axis)] = c.b.size(index, 0);
  Shape line(at(rank), Expr(1));
  line[at(axis)] = shape[at(axis)];
  std::vector<Coordinate> coordinates;
  for (int k = 0; k < rank; ++k) {
    coordinates.push_back(k == axis ? Coordinate{0, {}} : Coordinate{-1, Expr::index(k)});
  }
  return c.b.gather(x, {c.b.reshape(index, line)}, shape, coordinates);
}

std::string_view resampled_name(Context& c) { return c.has("input") ? "input" : "self"; }

void upsample_nearest(Context& c) {
  NodeId x = c.tensor(resampled_name(c));
  for (int axis = 2; axis < c.b.rank(x); ++axis) {
    Lengths sizes = known_sizes(c, x, axis);
    double step = step_between(c, sizes.in, sizes.out, false, at(axis - 2));
    NodeId place = c.b.iota(DType::kFloat32, sizes.out);
    NodeId from = c.b.unary(UnaryOp::kFloor, mul(c, place, step));
    x = pick_along(c, x, axis, c.b.cast(from, DType::kInt64));
  }
  c.set(x);
}

// Linear interpolation along each spatial axis in turn.
void upsample_linear(Context& c) {
  std::string_view name = resampled_name(c);
  NodeId x = float_tensor(c, name);
  bool align = c.flag("align_corners", false);
  DType d = c.b.dtype(x);
  for (int axis = 2; axis < c.b.rank(x); ++axis) {
    Lengths sizes = known_sizes(c, x, axis);
    double step = step_between(c, sizes.in, sizes.out, align, at(axis - 2));
    NodeId place = c.b.iota(d, sizes.out);
    NodeId from =
        align ? mul(c, place, step) : maximum(c, add(c, mul(c, add(c, place, 0.5), step), -0.5), 0);
    NodeId below = c.b.unary(UnaryOp::kFloor, from);
    Shape line(at(c.b.rank(x)), Expr(1));
    line[at(axis)] = sizes.out;
    NodeId weight = c.b.reshape(sub(c, from, below), line);
    NodeId low = c.b.cast(below, DType::kInt64);
    NodeId high = minimum(c, add(c, low, 1.0), static_cast<double>(sizes.in - 1));
    NodeId a = pick_along(c, x, axis, low);
    NodeId b = pick_along(c, x, axis, high);
    x = add(c, mul(c, a, sub(c, number_like(c, weight, 1), weight)), mul(c, b, weight));
  }
  c.result(x);
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

// The grid's last axis holds coordinates in [-1, 1], x first; zero outside by default. In half
// precision PyTorch rounds after every step, and coordinates are coarse enough to show it.
void grid_sample(Context& c, int spatial) {
  NodeId x = float_tensor(c, "input");
  DType narrow = c.out_dtype();
  auto r = [&](NodeId value) {
    return common::is_half(narrow) ? c.b.cast(c.b.cast(value, narrow), c.b.dtype(x)) : value;
  };
  NodeId grid = float_tensor(c, "grid");
  int64_t mode = c.integer("interpolation_mode", 0);
  int64_t padding = c.integer("padding_mode", 0);
  bool align = c.flag("align_corners", false);
  if (mode > 1) c.refuse("cubic interpolation is not supported");
  if (c.b.rank(x) != spatial + 2 || c.b.rank(grid) != spatial + 2) c.refuse("the ranks differ");
  Sizes out = c.out_shape();
  int rank = spatial + 2;
  std::vector<int64_t> sizes;
  std::vector<NodeId> place;  // one for each spatial axis, shaped (batch, 1, *out)
  for (int k = 0; k < spatial; ++k) {
    Expr size = c.b.size(x, 2 + k);
    if (!size.is_constant()) c.refuse("symbolic sizes are not supported here");
    auto n = static_cast<double>(size.constant());
    sizes.push_back(size.constant());
    NodeId g = c.b.slice(grid, spatial + 1, spatial - 1 - k, 1);
    g = c.b.unsqueeze(c.b.squeeze(g, spatial + 1), 1);
    NodeId shifted = r(add(c, g, 1.0));
    NodeId p = align ? r(mul(c, shifted, (n - 1) / 2)) : r(add(c, r(mul(c, shifted, n / 2)), -0.5));
    if (padding == 2) p = align ? reflected(c, p, 0, n - 1) : reflected(c, p, -0.5, n);
    if (padding != 0) p = minimum(c, maximum(c, p, 0), n - 1);
    place.push_back(p);
  }
  NodeId total = c.b.full(c.b.dtype(x), out, 0);
  int corners = mode == 1 ? 1 : 1 << spatial;
  for (int corner = 0; corner < corners; ++corner) {
    std::vector<NodeId> indices;
    NodeId weight = number_like(c, x, 1);
    std::vector<Coordinate> coordinates = {{-1, Expr::index(0)}, {-1, Expr::index(1)}};
    for (int k = 0; k < spatial; ++k) {
      NodeId below = c.b.unary(mode == 1 ? UnaryOp::kRound : UnaryOp::kFloor, place[at(k)]);
      NodeId share = r(sub(c, place[at(k)], below));
      bool upper = (corner >> k & 1) != 0;
      NodeId at_corner = upper ? add(c, below, 1.0) : below;
      if (mode == 0) {
        NodeId part = upper ? share : r(sub(c, number_like(c, x, 1), share));
        weight = r(mul(c, weight, part));
      }
      NodeId inside = c.b.binary(BinaryOp::kAnd,
                                 c.b.binary(BinaryOp::kLessEqual, number_like(c, x, 0), at_corner),
                                 less(c, at_corner, static_cast<double>(sizes[at(k)])));
      weight = c.b.select(inside, weight, number_like(c, x, 0));
      indices.push_back(c.b.cast(at_corner, DType::kInt64));
      coordinates.push_back({k, {}});
    }
    // The shape may lie in a node that moves when nodes are added.
    Shape spread = out;  // NOLINT(performance-unnecessary-copy-initialization)
    NodeId value = c.b.gather(x, indices, spread, coordinates);
    total = r(add(c, total, r(mul(c, value, weight))));
  }
  if (c.b.rank(total) != rank) c.refuse("the result has another rank");
  c.result(total);
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
    t->add(name, upsample_nearest);
  }
  for (const char* name :
       {"aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d"}) {
    t->add(name, upsample_linear);
  }
  t->add("aten.grid_sampler_2d", [](Context& c) { grid_sample(c, 2); });
  t->add("aten.grid_sampler_3d", [](Context& c) { grid_sample(c, 3); });
  t->add("aten.pixel_shuffle", pixel_shuffle);
  t->add("aten.pixel_unshuffle", pixel_unshuffle);
}

}  // namespace clients
