// Reductions, scans, sorting and statistics.
#include <algorithm>
#include <cmath>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

// The operand in the type that sums and products accumulate in.
NodeId accumulated(Context& c, size_t k = 0) {
  return c.b.cast(c.tensor("self"), compute_dtype(c.out_dtype(k)));
}

template <ReduceOp op>
void reduce(Context& c) {
  NodeId x = accumulated(c);
  c.result(c.b.reduce(op, x, c.axes("dim", c.b.rank(x)), c.flag("keepdim", false)));
}

void mean_of(Context& c) {
  NodeId x = accumulated(c);
  std::vector<int> axes = c.axes("dim", c.b.rank(x));
  bool keep = c.flag("keepdim", false);
  NodeId total = c.b.reduce(ReduceOp::kSum, x, axes, keep);
  c.result(div(c, total, count(c, x, axes, c.b.dtype(x))));
}

// Greatest or least element; booleans have any and all for it.
NodeId extreme(Context& c, bool greatest, NodeId x, const std::vector<int>& axes, bool keep) {
  DType d = c.b.dtype(x);
  if (d == DType::kBool) {
    return c.b.reduce(greatest ? ReduceOp::kAny : ReduceOp::kAll, x, axes, keep);
  }
  return c.b.reduce(greatest ? ReduceOp::kMax : ReduceOp::kMin, c.b.cast(x, compute_dtype(d)), axes,
                    keep);
}

void extreme_over(Context& c, bool greatest) {
  NodeId x = c.tensor("self");
  c.result(extreme(c, greatest, x, c.axes("dim", c.b.rank(x)), c.flag("keepdim", false)));
}

NodeId position_of(Context& c, bool greatest, NodeId x, int axis, bool keep) {
  if (c.b.rank(x) == 0) return c.b.scalar_int(DType::kInt64, 0);
  NodeId wide = c.b.cast(x, compute_dtype(c.b.dtype(x)));
  return c.b.reduce(greatest ? ReduceOp::kArgmax : ReduceOp::kArgmin, wide, {axis}, keep);
}

// max.dim and min.dim give values and positions.
void extreme_dim(Context& c, bool greatest) {
  NodeId x = c.tensor("self");
  int axis = c.axis("dim", c.b.rank(x));
  bool keep = c.flag("keepdim", false);
  std::vector<int> axes;
  if (c.b.rank(x) > 0) axes.push_back(axis);
  c.result(extreme(c, greatest, x, axes, keep));
  if (c.wants_output(1)) c.result(position_of(c, greatest, x, axis, keep), 1);
}

void aminmax(Context& c) {
  NodeId x = c.tensor("self");
  std::vector<int> axes = c.axes("dim", c.b.rank(x));
  bool keep = c.flag("keepdim", false);
  c.result(extreme(c, false, x, axes, keep), 0);
  c.result(extreme(c, true, x, axes, keep), 1);
}

void arg_extreme(Context& c, bool greatest) {
  NodeId x = c.tensor("self");
  if (c.has("dim")) {
    int axis = c.axis("dim", c.b.rank(x));
    return c.result(position_of(c, greatest, x, axis, c.flag("keepdim", false)));
  }
  NodeId position = position_of(c, greatest, flatten(c, x), 0, false);
  c.result(c.b.reshape(position, c.out_shape()));
}

template <ReduceOp op>
void test_all(Context& c) {
  NodeId x = truth(c, c.tensor("self"));
  c.result(c.b.reduce(op, x, c.axes("dim", c.b.rank(x)), c.flag("keepdim", false)));
}

struct Moments {
  NodeId average = 0;
  NodeId variance = 0;
};

Moments moments(Context& c) {
  NodeId x = float_tensor(c, "self");
  std::vector<int> axes = c.axes("dim", c.b.rank(x));
  double correction = c.has("correction") ? c.number("correction", 1)
                      : c.has("unbiased") ? (c.flag("unbiased", true) ? 1 : 0)
                                          : 1;
  NodeId average = mean(c, x, axes);
  NodeId centred = sub(c, x, average);
  NodeId squares = c.b.reduce(ReduceOp::kSum, mul(c, centred, centred), axes, true);
  NodeId n = count(c, x, axes, c.b.dtype(x));
  NodeId divisor = correction == 0 ? n : maximum(c, add(c, n, -correction), 0);
  NodeId variance = div(c, squares, divisor);
  if (!c.flag("keepdim", false)) {
    for (size_t i = axes.size(); i-- > 0;) {
      average = c.b.squeeze(average, axes[i]);
      variance = c.b.squeeze(variance, axes[i]);
    }
  }
  return {average, variance};
}

void variance(Context& c, bool root, bool with_mean) {
  Moments m = moments(c);
  c.result(root ? c.b.unary(UnaryOp::kSqrt, m.variance) : m.variance);
  if (with_mean) c.result(m.average, 1);
}

void logsumexp(Context& c) {
  NodeId x = float_tensor(c, "self");
  std::vector<int> axes = c.axes("dim", c.b.rank(x));
  NodeId top = c.b.reduce(ReduceOp::kMax, x, axes, true);
  // Infinite maxima would leave inf - inf.
  NodeId shift = c.b.select(c.b.unary(UnaryOp::kIsInf, top), number_like(c, x, 0), top);
  NodeId e = c.b.unary(UnaryOp::kExp, sub(c, x, shift));
  NodeId out = add(c, c.b.unary(UnaryOp::kLog, c.b.reduce(ReduceOp::kSum, e, axes, true)), shift);
  if (!c.flag("keepdim", false)) {
    for (size_t i = axes.size(); i-- > 0;) out = c.b.squeeze(out, axes[i]);
  }
  c.result(out);
}

void vector_norm(Context& c, std::string_view order_name) {
  NodeId x = c.b.cast(c.tensor("self"), compute_dtype(c.out_dtype()));
  c.result(
      norm(c, x, c.number(order_name, 2), c.axes("dim", c.b.rank(x)), c.flag("keepdim", false)));
}

template <ScanOp op>
void scan(Context& c) {
  NodeId x = accumulated(c);
  if (c.b.rank(x) == 0) return c.result(x);
  c.result(c.b.scan(op, x, c.axis("dim", c.b.rank(x))));
}

// cummax and cummin: running extremes and where each was last met.
void running_extreme(Context& c, bool greatest) {
  NodeId x = c.tensor("self");
  if (c.b.rank(x) == 0) {
    c.set(x);
    return c.result(c.b.scalar_int(DType::kInt64, 0), 1);
  }
  int axis = c.axis("dim", c.b.rank(x));
  DType d = c.b.dtype(x) == DType::kBool ? DType::kUint8 : compute_dtype(c.b.dtype(x));
  NodeId wide = c.b.cast(x, d);
  NodeId running = c.b.scan(greatest ? ScanOp::kMax : ScanOp::kMin, wide, axis);
  c.result(running);
  if (!c.wants_output(1)) return;
  NodeId here = c.b.binary(BinaryOp::kEqual, wide, running);
  if (common::is_float(d)) {
    here = c.b.binary(BinaryOp::kOr, here, c.b.unary(UnaryOp::kIsNan, wide));
  }
  NodeId place = positions(c, c.b.size(x, axis), axis, c.b.rank(x));
  NodeId met = c.b.select(here, place, c.b.scalar_int(DType::kInt64, 0));
  c.result(c.b.scan(ScanOp::kMax, met, axis), 1);
}

// x[..., index, ...] along one axis, for an index of any shape that fits the other axes.
NodeId take_along(Context& c, NodeId x, NodeId index, int axis) {
  return c.b.gather(x, {index}, c.b.shape(index), along(c.b.rank(x), axis));
}

void sort(Context& c, bool values_too) {
  NodeId x = c.tensor("self");
  if (c.b.rank(x) == 0) {
    if (values_too) c.set(x);
    return c.result(c.b.scalar_int(DType::kInt64, 0), values_too ? 1 : 0);
  }
  int axis = c.axis("dim", c.b.rank(x), -1);
  NodeId order = c.b.sort_indices(x, axis, c.flag("descending", false));
  if (!c.flag("stable", false)) c.note_unstable(order);
  if (values_too) c.set(take_along(c, x, order, axis));
  c.result(order, values_too ? 1 : 0);
}

void msort(Context& c) {
  NodeId x = c.tensor("self");
  if (c.b.rank(x) == 0) return c.set(x);
  c.set(take_along(c, x, c.b.sort_indices(x, 0, false), 0));
}

void topk(Context& c) {
  NodeId x = c.tensor("self");
  if (c.b.rank(x) == 0) {
    c.set(x);
    return c.result(c.b.scalar_int(DType::kInt64, 0), 1);
  }
  int axis = c.axis("dim", c.b.rank(x), -1);
  NodeId order = c.b.sort_indices(x, axis, c.flag("largest", true));
  NodeId best = c.b.slice(order, axis, 0, c.size("k"));
  c.set(take_along(c, x, best, axis));
  c.result(best, 1);
}

void kthvalue(Context& c) {
  NodeId x = c.tensor("self");
  int axis = c.axis("dim", c.b.rank(x), -1);
  if (c.b.rank(x) == 0) c.refuse("it takes a tensor with axes");
  NodeId order = c.b.sort_indices(x, axis, false);
  NodeId place = c.b.slice(order, axis, c.size("k") - 1, 1);
  NodeId value = take_along(c, x, place, axis);
  bool keep = c.flag("keepdim", false);
  c.set(keep ? value : c.b.squeeze(value, axis));
  c.result(keep ? place : c.b.squeeze(place, axis), 1);
}

// The least of the elements that occur most often, and the last place that has it.
void mode(Context& c) {
  NodeId x = c.tensor("self");
  if (c.b.rank(x) == 0) {
    c.set(x);
    return c.result(c.b.scalar_int(DType::kInt64, 0), 1);
  }
  int rank = c.b.rank(x);
  int axis = c.axis("dim", rank, -1);
  Expr size = c.b.size(x, axis);
  NodeId order = c.b.sort_indices(x, axis, false);
  NodeId sorted = take_along(c, x, order, axis);
  DType wide = compute_dtype(c.b.dtype(x));
  NodeId keys = c.b.cast(sorted, wide == DType::kBool ? DType::kInt32 : wide);
  NodeId place = positions(c, size, axis, rank);
  // Where each run of equal elements begins.
  NodeId rest = c.b.binary(BinaryOp::kNotEqual, c.b.slice(keys, axis, 1, size - 1),
                           c.b.slice(keys, axis, 0, size - 1));
  NodeId begins = c.b.cast(c.b.pad(rest, axis, 1, 0, 0), DType::kInt64);
  NodeId start = c.b.scan(ScanOp::kMax, mul(c, begins, place), axis);
  NodeId length = sub(c, place, start);
  NodeId best = c.b.reduce(ReduceOp::kArgmax, length, {axis}, true);
  NodeId value = take_along(c, sorted, best, axis);
  NodeId index = take_along(c, order, best, axis);
  bool keep = c.flag("keepdim", false);
  c.set(keep ? value : c.b.squeeze(value, axis));
  c.result(keep ? index : c.b.squeeze(index, axis), 1);
}

// The lower of two middle elements; a NaN wins unless it is to be ignored.
void median(Context& c, bool ignore_nan) {
  NodeId x = c.tensor("self");
  bool flat = !c.has("dim");
  if (flat) x = flatten(c, x);
  if (c.b.rank(x) == 0) x = c.b.unsqueeze(x, 0);
  int axis = flat ? 0 : c.axis("dim", c.b.rank(x));
  Expr size = c.b.size(x, axis);
  NodeId order = c.b.sort_indices(x, axis, false);
  NodeId place = c.b.size_scalar(DType::kInt64, common::floor_div(size - 1, 2));
  Sizes kept = c.b.shape(x);
  kept[at(axis)] = 1;
  NodeId index = c.b.expand(place, kept);
  if (common::is_float(c.b.dtype(x))) {
    NodeId wide = c.b.cast(x, compute_dtype(c.b.dtype(x)));
    NodeId nan = c.b.unary(UnaryOp::kIsNan, wide);
    NodeId length = c.b.size_scalar(DType::kInt64, size);
    // NaNs are sorted last: the last element is one, or the numbers before them have a middle.
    NodeId nans = c.b.reduce(ReduceOp::kSum, c.b.cast(nan, DType::kInt64), {axis}, true);
    if (ignore_nan) {
      NodeId middle = c.b.binary(BinaryOp::kFloorDiv, add(c, sub(c, length, nans), -1.0),
                                 c.b.scalar_int(DType::kInt64, 2));
      index = c.b.binary(BinaryOp::kMax, middle, c.b.scalar_int(DType::kInt64, 0));
    } else {
      NodeId first_nan = sub(c, length, nans);
      NodeId any = c.b.binary(BinaryOp::kLess, first_nan, length);
      index = c.b.select(any, first_nan, index);
    }
  }
  NodeId position = take_along(c, order, index, axis);
  NodeId value = take_along(c, x, position, axis);
  auto shaped = [&](NodeId v) { return c.b.reshape(v, c.out_shape()); };
  c.set(shaped(value));
  if (c.wants_output(1)) c.result(shaped(position), 1);
}

void nansum(Context& c, bool averaged) {
  NodeId x = accumulated(c);
  std::vector<int> axes = c.axes("dim", c.b.rank(x));
  bool keep = c.flag("keepdim", false);
  if (!common::is_float(c.b.dtype(x))) return c.result(c.b.reduce(ReduceOp::kSum, x, axes, keep));
  NodeId nan = c.b.unary(UnaryOp::kIsNan, x);
  NodeId numbers = c.b.select(nan, number_like(c, x, 0), x);
  NodeId total = c.b.reduce(ReduceOp::kSum, numbers, axes, keep);
  if (!averaged) return c.result(total);
  NodeId present = c.b.cast(c.b.unary(UnaryOp::kNot, nan), c.b.dtype(x));
  c.result(div(c, total, c.b.reduce(ReduceOp::kSum, present, axes, keep)));
}

void count_nonzero(Context& c) {
  NodeId x = c.b.cast(truth(c, c.tensor("self")), DType::kInt64);
  c.result(c.b.reduce(ReduceOp::kSum, x, c.axes("dim", c.b.rank(x))));
}

// Differences of neighbours, n times.
void diff(Context& c) {
  NodeId x = c.tensor("self");
  int axis = c.axis("dim", c.b.rank(x), -1);
  std::vector<NodeId> parts;
  if (c.has("prepend")) parts.push_back(c.b.cast(c.tensor("prepend"), c.b.dtype(x)));
  parts.push_back(x);
  if (c.has("append")) parts.push_back(c.b.cast(c.tensor("append"), c.b.dtype(x)));
  if (parts.size() > 1) x = c.b.concat(parts, axis);
  x = c.b.cast(x, compute_dtype(c.b.dtype(x)));
  Expr length = c.b.size(x, axis);
  if (length.is_constant() && c.integer("n", 1) >= length.constant()) {
    return c.result(c.b.full(c.b.dtype(x), c.out_shape(), 0));
  }
  constexpr int64_t kMaxOrder = 64;
  int64_t order = c.integer("n", 1);
  if (order > kMaxOrder) c.refuse("differences of such an order are not supported");
  for (int64_t i = order; i > 0; --i) {
    Expr rest = c.b.size(x, axis) - 1;
    NodeId after = c.b.slice(x, axis, 1, rest);
    NodeId before = c.b.slice(x, axis, 0, rest);
    x = c.b.dtype(x) == DType::kBool ? c.b.binary(BinaryOp::kXor, after, before)
                                     : sub(c, after, before);
  }
  c.result(x);
}

// Counts of values in equal bins; the last bin holds its right edge, others are dropped outside.
void histc(Context& c) {
  NodeId x = flatten(c, float_tensor(c, "self"));
  int64_t bins = c.integer("bins", 100);
  double low = c.number("min", 0);
  double high = c.number("max", 0);
  NodeId first = number_like(c, x, low);
  NodeId last = number_like(c, x, high);
  if (low == high) {
    if (low != 0) c.refuse("an empty range");
    first = c.b.reduce(ReduceOp::kMin, x, {0});
    last = c.b.reduce(ReduceOp::kMax, x, {0});
    NodeId flat = c.b.binary(BinaryOp::kEqual, first, last);
    NodeId below = add(c, first, -1.0);
    NodeId above = add(c, last, 1.0);
    first = c.b.select(flat, below, first);
    last = c.b.select(flat, above, last);
  }
  // Two numbers of the type in double precision: their difference rounds to the type's only once.
  NodeId width = low == high || c.b.dtype(x) != DType::kFloat32
                     ? sub(c, last, first)
                     : number_like(c, x, static_cast<float>(high) - static_cast<float>(low));
  NodeId scaled = div(c, mul(c, sub(c, x, first), static_cast<double>(bins)), width);
  NodeId bin = c.b.cast(c.b.unary(UnaryOp::kFloor, scaled), DType::kInt64);
  bin = c.b.binary(BinaryOp::kMin, bin, c.b.scalar_int(DType::kInt64, bins - 1));
  NodeId inside = c.b.binary(BinaryOp::kAnd, c.b.binary(BinaryOp::kLessEqual, first, x),
                             c.b.binary(BinaryOp::kLessEqual, x, last));
  NodeId place = c.b.select(inside, bin, c.b.scalar_int(DType::kInt64, bins));
  DType d = compute_dtype(c.out_dtype());
  NodeId zeros = c.b.full(d, {bins}, 0);
  NodeId ones = c.b.full(d, c.b.shape(x), 1);
  c.result(c.b.scatter(ScatterMode::kAdd, zeros, ones, {place}, {common::Coordinate{0, {}}}));
}

void add_reductions(OperatorTable* t) {
  t->add("aten.sum", reduce<ReduceOp::kSum>);
  t->add("aten.prod", reduce<ReduceOp::kProd>);
  t->add("aten.mean", mean_of);
  t->add("aten.amax", [](Context& c) { extreme_over(c, true); });
  t->add("aten.amin", [](Context& c) { extreme_over(c, false); });
  t->add("aten.max.default", [](Context& c) { extreme_over(c, true); });
  t->add("aten.min.default", [](Context& c) { extreme_over(c, false); });
  t->add("aten.max.dim", [](Context& c) { extreme_dim(c, true); });
  t->add("aten.min.dim", [](Context& c) { extreme_dim(c, false); });
  t->add("aten.aminmax", aminmax);
  t->add("aten.argmax", [](Context& c) { arg_extreme(c, true); });
  t->add("aten.argmin", [](Context& c) { arg_extreme(c, false); });
  t->add("aten.any", test_all<ReduceOp::kAny>);
  t->add("aten.all", test_all<ReduceOp::kAll>);
  t->add("aten._is_any_true", test_all<ReduceOp::kAny>);
  t->add("aten._is_all_true", test_all<ReduceOp::kAll>);
  t->add("aten.var", [](Context& c) { variance(c, false, false); });
  t->add("aten.std", [](Context& c) { variance(c, true, false); });
  t->add("aten.var_mean", [](Context& c) { variance(c, false, true); });
  t->add("aten.std_mean", [](Context& c) { variance(c, true, true); });
  t->add("aten.logsumexp", logsumexp);
  t->add("aten.linalg_vector_norm", [](Context& c) { vector_norm(c, "ord"); });
  t->add("aten.norm", [](Context& c) { vector_norm(c, "p"); });
  t->add("aten.nansum", [](Context& c) { nansum(c, false); });
  t->add("aten.nanmean", [](Context& c) { nansum(c, true); });
  t->add("aten.count_nonzero", count_nonzero);
}

}  // namespace

void add_reduction_operators(OperatorTable* t) {
  add_reductions(t);
  t->add("aten.cumsum", scan<ScanOp::kSum>);
  t->add("aten.cumprod", scan<ScanOp::kProd>);
  t->add("aten.logcumsumexp", scan<ScanOp::kLogSumExp>);
  t->add("aten.cummax", [](Context& c) { running_extreme(c, true); });
  t->add("aten.cummin", [](Context& c) { running_extreme(c, false); });
  t->add("aten.sort", [](Context& c) { sort(c, true); });
  t->add("aten.argsort", [](Context& c) { sort(c, false); });
  t->add("aten.msort", msort);
  t->add("aten.topk", topk);
  t->add("aten.kthvalue", kthvalue);
  t->add("aten.mode", mode);
  t->add("aten.median", [](Context& c) { median(c, false); });
  t->add("aten.nanmedian", [](Context& c) { median(c, true); });
  t->add("aten.diff", diff);
  t->add("aten.histc", histc);
}

}  // namespace clients
