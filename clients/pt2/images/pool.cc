// Pooling, adaptive pooling and unpooling.
#include "clients/pt2/images/pool.h"

#include <algorithm>
#include <limits>

#include "clients/pt2/aten/operators.h"
#include "common/ir/expr/index.h"

namespace clients {

using common::at;

Pooling pooling(Context& c, int spatial, const Sizes& out) {
  Pooling p;
  p.spatial = spatial;
  p.x = c.tensor("self");
  p.window.kernel = per_axis(c, "kernel_size", spatial, {});
  p.window.stride = per_axis(c, "stride", spatial, p.window.kernel);
  p.window.padding = per_axis(c, "padding", spatial, {0});
  p.window.dilation = per_axis(c, "dilation", spatial, {1});
  if (c.b.rank(p.x) < spatial + 1) c.refuse("the input has another rank");
  p.out = out.last(at(spatial));
  return p;
}

namespace {

std::vector<int> last(int rank, int count) {
  std::vector<int> axes;
  for (int k = rank - count; k < rank; ++k) axes.push_back(k);
  return axes;
}

// The kernel axes of a windowed value joined into one, and its greatest element's place there.
struct Peak {
  NodeId value = 0;
  NodeId place = 0;
};

Peak peak(Context& c, NodeId windowed, int spatial, bool with_place) {
  int rank = c.b.rank(windowed);
  Peak out;
  out.value = c.b.reduce(ReduceOp::kMax, windowed, last(rank, spatial));
  if (!with_place) return out;
  Sizes shape = c.b.shape(windowed);
  Shape joined = shape.without_last(at(spatial));
  Expr taps = 1;
  for (int k = rank - spatial; k < rank; ++k) taps *= c.b.size(windowed, k);
  joined.push_back(taps);
  out.place = c.b.reduce(ReduceOp::kArgmax, c.b.reshape(windowed, joined), {rank - spatial});
  return out;
}

// Splits a place within the window into one number for each axis.
std::vector<NodeId> split_place(Context& c, NodeId place, const std::vector<int64_t>& kernel) {
  std::vector<NodeId> out(kernel.size());
  for (size_t k = kernel.size(); k-- > 0;) {
    NodeId size = c.b.scalar_int(DType::kInt64, kernel[k]);
    out[k] = c.b.binary(BinaryOp::kMod, place, size);
    place = c.b.binary(BinaryOp::kFloorDiv, place, size);
  }
  return out;
}

double least(DType d) {
  if (common::is_float(d)) return -std::numeric_limits<double>::infinity();
  int64_t bits = common::dtype_size(d) * 8;
  return d == DType::kUint8 || d == DType::kBool ? 0
                                                 : -static_cast<double>(uint64_t{1} << (bits - 1));
}

void max_pool(Context& c, int spatial) {
  Pooling p = pooling(c, spatial, c.out_shape());
  DType d = compute_dtype(c.b.dtype(p.x));
  NodeId x = c.b.cast(p.x, d);
  Sizes shape = c.b.shape(x);
  Sizes sizes = shape.last(at(spatial));
  bool with_place = c.wants_output(1);
  Peak top = peak(c, windows(c, x, p.window, p.out, least(d)), spatial, with_place);
  c.result(top.value);
  if (!with_place) return;
  std::vector<NodeId> places = split_place(c, top.place, p.window.kernel);
  int rank = c.b.rank(top.value);
  NodeId flat = c.b.scalar_int(DType::kInt64, 0);
  for (int k = 0; k < spatial; ++k) {
    int axis = rank - spatial + k;
    NodeId o = positions(c, p.out[at(k)], axis, rank);
    NodeId start = add(c, mul(c, o, static_cast<double>(p.window.stride[at(k)])),
                       -static_cast<double>(p.window.padding[at(k)]));
    NodeId step = mul(c, places[at(k)], static_cast<double>(p.window.dilation[at(k)]));
    flat = add(c, mul(c, flat, c.b.size_scalar(DType::kInt64, sizes[at(k)])), add(c, start, step));
  }
  c.result(flat, 1);
}

// How many elements of each window count, along one axis: shape (out).
NodeId window_counts(Context& c, const Pooling& p, size_t k, const Expr& size, bool with_padding,
                     DType d) {
  Window w{{p.window.kernel[k]}, {p.window.stride[k]}, {p.window.padding[k]}, {1}};
  Expr length = size;
  if (with_padding) {
    length = size + Expr(2 * w.padding[0]);
    w.padding[0] = 0;
  }
  NodeId ones = c.b.full(d, {length}, 1);
  return c.b.reduce(ReduceOp::kSum, windows(c, ones, w, {p.out[k]}, 0), {1});
}

}  // namespace

NodeId averaged(Context& c, const Pooling& p, NodeId total, const Shape& sizes) {
  if (c.has("divisor_override")) {
    double divisor = static_cast<double>(c.integer("divisor_override"));
    return div(c, total, number_like(c, total, divisor));
  }
  bool padded = std::any_of(p.window.padding.begin(), p.window.padding.end(),
                            [](int64_t amount) { return amount != 0; });
  if (!padded && !c.flag("ceil_mode", false)) {
    double taps = 1;
    for (int64_t size : p.window.kernel) taps *= static_cast<double>(size);
    return div(c, total, number_like(c, total, taps));
  }
  int rank = c.b.rank(total);
  for (int k = 0; k < p.spatial; ++k) {
    NodeId counts = window_counts(c, p, at(k), sizes[at(k)], c.flag("count_include_pad", true),
                                  c.b.dtype(total));
    Shape shape(at(rank), Expr(1));
    shape[at(rank - p.spatial + k)] = p.out[at(k)];
    total = div(c, total, c.b.reshape(counts, shape));
  }
  return total;
}

namespace {

void avg_pool(Context& c, int spatial) {
  Pooling p = pooling(c, spatial, c.out_shape());
  DType d = compute_dtype(c.b.dtype(p.x));
  NodeId x = c.b.cast(p.x, d);
  Sizes shape = c.b.shape(x);
  NodeId windowed = windows(c, x, p.window, p.out, 0);
  NodeId total = c.b.reduce(ReduceOp::kSum, windowed, last(c.b.rank(windowed), spatial));
  c.result(averaged(c, p, total, shape.last(at(spatial))));
}

}  // namespace

Adaptive adaptive(Context& c, NodeId x, const Sizes& to, int spatial, double fill) {
  Adaptive out;
  Sizes shape = c.b.shape(x);
  if (shape.size() != to.size()) c.refuse("the result has another rank");
  to.last(at(spatial));  // refuses fewer axes
  size_t lead = shape.size() - at(spatial);
  View view;
  for (size_t k = 0; k < lead; ++k) {
    view.shape.push_back(shape[k]);
    view.index.push_back(Expr::index(static_cast<int>(k)));
  }
  for (int k = 0; k < spatial; ++k) {
    Expr size = shape[lead + at(k)];
    const Expr& length = to[to.size() - at(spatial - k)];
    constexpr int64_t kMaxSize = 1 << 20;
    if (!size.is_constant() || !length.is_constant() || length.constant() < 1 ||
        length.constant() > kMaxSize || size.constant() > kMaxSize) {
      c.refuse("adaptive pooling of symbolic or huge sizes is not supported");
    }
    int64_t n = size.constant();
    int64_t m = length.constant();
    int64_t widest = 0;
    for (int64_t o = 0; o < m; ++o) {
      widest = std::max(widest, ((o + 1) * n + m - 1) / m - o * n / m);
    }
    out.sizes.push_back(n);
    out.outs.push_back(m);
    out.widest.push_back(widest);
    view.shape.push_back(m);
    Expr o = Expr::index(static_cast<int>(lead) + k);
    Expr t = Expr::index(static_cast<int>(lead) + spatial + k);
    Expr start = common::floor_div(o * Expr(n), m);
    Expr end = common::floor_div((o + 1) * Expr(n) + Expr(m - 1), m);
    view.index.push_back(common::min(start + t, n - 1));
    view.valid.push_back({t, end - start});
  }
  view.shape.insert(view.shape.end(), out.widest.begin(), out.widest.end());
  view.fill = fill;
  out.windowed = c.b.view(x, view);
  return out;
}

NodeId divided_by_widths(Context& c, NodeId total, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& outs) {
  int rank = c.b.rank(total);
  int spatial = static_cast<int>(sizes.size());
  for (int k = 0; k < spatial; ++k) {
    int64_t n = sizes[at(k)];
    int64_t m = outs[at(k)];
    NodeId o = positions(c, m, rank - spatial + k, rank);
    NodeId divisor = c.b.scalar_int(DType::kInt64, m);
    NodeId start = c.b.binary(BinaryOp::kFloorDiv, mul(c, o, static_cast<double>(n)), divisor);
    NodeId last_one =
        add(c, mul(c, add(c, o, 1.0), static_cast<double>(n)), static_cast<double>(m - 1));
    NodeId end = c.b.binary(BinaryOp::kFloorDiv, last_one, divisor);
    int64_t whole = n / m;
    NodeId width = n % m == 0 ? number_like(c, total, static_cast<double>(whole))
                              : c.b.cast(sub(c, end, start), c.b.dtype(total));
    total = div(c, total, width);
  }
  return total;
}

namespace {

// Sums of half-precision windows, rounded after every element as PyTorch's three-dimensional pool
// does it; wide windows keep the exact sum.
std::optional<NodeId> rounded_sum(Context& c, const Adaptive& a, int spatial) {
  constexpr int64_t kMaxTaps = 64;
  int64_t taps = 1;
  for (int64_t size : a.widest) taps *= size;
  DType narrow = c.out_dtype();
  if (spatial != 3 || !common::is_half(narrow) || taps > kMaxTaps) return std::nullopt;
  Sizes joined = c.b.shape(a.windowed);
  joined.resize(joined.size() - at(spatial));
  joined.push_back(taps);
  NodeId line = c.b.reshape(a.windowed, joined);
  int axis = c.b.rank(line) - 1;
  std::optional<NodeId> total;
  for (int64_t k = 0; k < taps; ++k) {
    NodeId tap = c.b.squeeze(c.b.slice(line, axis, k, 1), axis);
    total = total ? c.b.cast(c.b.cast(add(c, *total, tap), narrow), c.b.dtype(tap)) : tap;
  }
  return total;
}

// One window over everything, which also serves sizes that are symbols.
bool is_global(Context& c, int spatial) {
  Sizes to = c.out_shape().last(at(spatial));
  return std::all_of(to.begin(), to.end(), [](const Expr& size) { return size.is_constant(1); });
}

void adaptive_avg_pool(Context& c, int spatial) {
  NodeId x = c.tensor("self");
  DType d = compute_dtype(c.b.dtype(x));
  if (is_global(c, spatial) && !common::is_half(c.b.dtype(x))) {
    return c.result(mean(c, c.b.cast(x, d), last(c.b.rank(x), spatial)));
  }
  Adaptive a = adaptive(c, c.b.cast(x, d), c.out_shape(), spatial, 0);
  std::optional<NodeId> rounded = rounded_sum(c, a, spatial);
  NodeId total = rounded
                     ? *rounded
                     : c.b.reduce(ReduceOp::kSum, a.windowed, last(c.b.rank(a.windowed), spatial));
  c.result(divided_by_widths(c, total, a.sizes, a.outs));
}

void adaptive_max_pool(Context& c, int spatial) {
  NodeId x = c.tensor("self");
  DType d = compute_dtype(c.b.dtype(x));
  if (is_global(c, spatial)) {
    Sizes shape = c.b.shape(x);
    Shape flat = shape.without_last(at(spatial));
    flat.push_back(c.b.simplify(common::element_count(shape.last(at(spatial)))));
    NodeId line = c.b.reshape(c.b.cast(x, d), flat);
    std::vector<int> axis = {static_cast<int>(flat.size()) - 1};
    c.result(c.b.reshape(c.b.reduce(ReduceOp::kMax, line, axis), c.out_shape()));
    if (!c.wants_output(1)) return;
    NodeId place = c.b.reduce(ReduceOp::kArgmax, line, axis);
    return c.result(c.b.reshape(place, c.out_shape(1)), 1);
  }
  Adaptive a = adaptive(c, c.b.cast(x, d), c.out_shape(), spatial, least(d));
  bool with_place = c.wants_output(1);
  Peak top = peak(c, a.windowed, spatial, with_place);
  c.result(top.value);
  if (!with_place) return;
  std::vector<NodeId> places = split_place(c, top.place, a.widest);
  int rank = c.b.rank(top.value);
  NodeId flat = c.b.scalar_int(DType::kInt64, 0);
  for (int k = 0; k < spatial; ++k) {
    NodeId o = positions(c, a.outs[at(k)], rank - spatial + k, rank);
    NodeId start = c.b.binary(BinaryOp::kFloorDiv, mul(c, o, static_cast<double>(a.sizes[at(k)])),
                              c.b.scalar_int(DType::kInt64, a.outs[at(k)]));
    flat = add(c, mul(c, flat, static_cast<double>(a.sizes[at(k)])), add(c, start, places[at(k)]));
  }
  c.result(flat, 1);
}

// ---- Fractional pooling ----------------------------------------------------------------------

// Rounded to x's half type and back, as arithmetic in that type is.
NodeId in_half(Context& c, NodeId value, DType narrow) {
  if (!common::is_half(narrow)) return value;
  return c.b.cast(c.b.cast(value, narrow), c.b.dtype(value));
}

// Where the windows along one axis of `size` elements start, for each plane: `sample` is its random
// number, of shape (planes..., 1); the result is (planes..., count). The last window ends the axis.
NodeId fractional_starts(Context& c, NodeId sample, const Expr& size, int64_t kernel,
                         int64_t count) {
  DType narrow = c.b.dtype(sample);
  DType d = compute_dtype(narrow);
  NodeId wide = c.b.cast(sample, d);
  NodeId end = c.b.size_scalar(DType::kInt64, c.b.simplify(size - Expr(kernel)));
  NodeId place = positions(c, count, c.b.rank(sample) - 1, c.b.rank(sample));
  Shape shape = c.b.shape(sample);
  shape.back() = count;
  if (count == 1) return c.b.expand(end, shape);
  NodeId steps = number_like(c, wide, static_cast<double>(count - 1));
  NodeId stride = in_half(c, div(c, c.b.cast(end, d), steps), narrow);
  auto at_place = [&](NodeId shifted) {
    return c.b.cast(in_half(c, mul(c, shifted, stride), narrow), DType::kInt64);
  };
  NodeId shifted = in_half(c, add(c, c.b.cast(place, d), wide), narrow);
  NodeId start = sub(c, at_place(shifted), at_place(wide));
  NodeId is_last = c.b.binary(BinaryOp::kEqual, place, c.b.scalar_int(DType::kInt64, count - 1));
  return c.b.select(is_last, end, start);
}

// Max pooling over windows whose places follow from one random number for each plane and axis,
// which the caller gives: in two dimensions those of the last axis come first.
void fractional_max_pool(Context& c, int spatial) {
  NodeId x = c.tensor("self");
  NodeId samples = c.tensor("random_samples");
  std::vector<int64_t> kernel = per_axis(c, "kernel_size", spatial, {});
  std::vector<int64_t> out = per_axis(c, "output_size", spatial, {});
  int lead = c.b.rank(x) - spatial;
  if (lead != 1 && lead != 2) c.refuse("the input has another rank");
  if (c.b.dtype(x) != c.b.dtype(samples)) c.refuse("the samples have another dtype");
  Sizes sizes = c.b.shape(x);
  Shape planes = sizes.without_last(at(spatial));
  planes.push_back(spatial);
  samples = c.b.reshape(samples, planes);
  Shape shape = sizes.without_last(at(spatial));
  shape.insert(shape.end(), out.begin(), out.end());
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  int rank = static_cast<int>(shape.size());

  std::vector<NodeId> starts, indices;
  std::vector<common::Coordinate> where;
  for (int k = 0; k < lead; ++k) where.push_back({-1, Expr::index(k)});
  for (int k = 0; k < spatial; ++k) {
    if (out[at(k)] < 1 || kernel[at(k)] < 1) c.refuse("a window or the result is empty");
    NodeId sample = c.b.slice(samples, lead, spatial == 2 ? 1 - k : k, 1);
    NodeId start = fractional_starts(c, sample, sizes[at(lead + k)], kernel[at(k)], out[at(k)]);
    Shape line = sizes.without_last(at(spatial));
    line.resize(at(rank), Expr(1));
    line[at(lead + k)] = out[at(k)];
    starts.push_back(c.b.reshape(start, line));
    NodeId step = positions(c, kernel[at(k)], lead + spatial + k, rank);
    indices.push_back(add(c, starts.back(), step));
    where.push_back({k, {}});
  }
  NodeId windowed = c.b.gather(c.b.cast(x, compute_dtype(c.b.dtype(x))), indices, shape, where);
  bool with_place = c.wants_output(1);
  Peak top = peak(c, windowed, spatial, with_place);
  c.result(top.value);
  if (!with_place) return;
  std::vector<NodeId> places = split_place(c, top.place, kernel);
  NodeId flat = c.b.scalar_int(DType::kInt64, 0);
  for (int k = 0; k < spatial; ++k) {
    Shape line = c.b.shape(starts[at(k)]);
    line.resize(at(lead + spatial));
    NodeId element = add(c, c.b.reshape(starts[at(k)], line), places[at(k)]);
    NodeId size = c.b.size_scalar(DType::kInt64, sizes[at(lead + k)]);
    flat = add(c, mul(c, flat, size), element);
  }
  c.result(flat, 1);
}

// Puts each value where its window's maximum was, zero elsewhere.
void max_unpool(Context& c, int spatial) {
  NodeId x = c.tensor("self");
  NodeId indices = c.tensor("indices");
  Sizes out = c.out_shape();
  if (c.b.shape(x) != c.b.shape(indices) || c.b.rank(x) < spatial) c.refuse("the shapes differ");
  auto flat = [&](const Sizes& from) {
    Shape to = from.without_last(at(spatial));
    Expr n = common::element_count(from.last(at(spatial)));
    to.push_back(c.b.simplify(n));
    return to;
  };
  c.check_index(indices, {flat(out).back()});
  NodeId base = c.b.full(c.b.dtype(x), flat(out), 0);
  Shape line = flat(c.b.shape(x));
  std::vector<common::Coordinate> where;
  for (int k = 0; k + 1 < c.b.rank(base); ++k) where.push_back({-1, Expr::index(k)});
  where.push_back({0, {}});
  NodeId filled = c.b.scatter(ScatterMode::kAssign, base, c.b.reshape(x, line),
                              {c.b.reshape(indices, line)}, where);
  c.set(c.b.reshape(filled, out));
}

}  // namespace

void add_pool_operators(OperatorTable* t) {
  t->add("aten.max_pool1d", [](Context& c) { max_pool(c, 1); });
  t->add("aten.max_pool2d", [](Context& c) { max_pool(c, 2); });
  t->add("aten.max_pool3d", [](Context& c) { max_pool(c, 3); });
  t->add("aten.max_pool1d_with_indices", [](Context& c) { max_pool(c, 1); });
  t->add("aten.max_pool2d_with_indices", [](Context& c) { max_pool(c, 2); });
  t->add("aten.max_pool3d_with_indices", [](Context& c) { max_pool(c, 3); });
  t->add("aten.avg_pool1d", [](Context& c) { avg_pool(c, 1); });
  t->add("aten.avg_pool2d", [](Context& c) { avg_pool(c, 2); });
  t->add("aten.avg_pool3d", [](Context& c) { avg_pool(c, 3); });
  t->add("aten.adaptive_avg_pool1d", [](Context& c) { adaptive_avg_pool(c, 1); });
  t->add("aten.adaptive_avg_pool2d", [](Context& c) { adaptive_avg_pool(c, 2); });
  t->add("aten._adaptive_avg_pool2d", [](Context& c) { adaptive_avg_pool(c, 2); });
  t->add("aten.adaptive_avg_pool3d", [](Context& c) { adaptive_avg_pool(c, 3); });
  t->add("aten._adaptive_avg_pool3d", [](Context& c) { adaptive_avg_pool(c, 3); });
  t->add("aten.adaptive_max_pool1d", [](Context& c) { adaptive_max_pool(c, 1); });
  t->add("aten.adaptive_max_pool2d", [](Context& c) { adaptive_max_pool(c, 2); });
  t->add("aten.adaptive_max_pool3d", [](Context& c) { adaptive_max_pool(c, 3); });
  t->add("aten.fractional_max_pool2d", [](Context& c) { fractional_max_pool(c, 2); });
  t->add("aten.fractional_max_pool3d", [](Context& c) { fractional_max_pool(c, 3); });
  t->add("aten.max_unpool2d", [](Context& c) { max_unpool(c, 2); });
  t->add("aten.max_unpool3d", [](Context& c) { max_unpool(c, 3); });
}

}  // namespace clients
