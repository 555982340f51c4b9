// Softmax and the normalisations.
#include <limits>
#include <numeric>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// The dtype argument converts the input before the function.
NodeId converted(Context& c) {
  NodeId x = c.tensor("self");
  if (auto wanted = c.dtype("dtype")) x = c.b.cast(x, *wanted);
  return c.b.cast(x, float_dtype(c.b.dtype(x)));
}

void softmax(Context& c) {
  NodeId x = converted(c);
  c.result(softmax(c, x, c.axis("dim", c.b.rank(x))));
}

// Rows that are minus infinity throughout give zeros.
void safe_softmax(Context& c) {
  NodeId x = converted(c);
  int rank = c.b.rank(x);
  NodeId y = softmax(c, x, c.axis("dim", rank));
  NodeId lowest = number_like(c, x, -std::numeric_limits<double>::infinity());
  NodeId hidden = c.b.binary(BinaryOp::kEqual, x, lowest);
  if (rank > 0) hidden = c.b.reduce(ReduceOp::kAll, hidden, {c.axis("dim", rank)}, true);
  c.result(c.b.select(hidden, number_like(c, y, 0), y));
}

void log_softmax(Context& c) {
  NodeId x = converted(c);
  c.result(log_softmax(c, x, c.axis("dim", c.b.rank(x))));
}

// The gradient of a softmax, or of its logarithm, from its output.
void softmax_backward(Context& c, bool log) {
  NodeId g = float_tensor(c, "grad_output");
  NodeId y = float_tensor(c, "output");
  int rank = c.b.rank(y);
  if (rank == 0) return c.result(number_like(c, y, 0));  // the one share is always 1
  std::vector<int> axis = {c.axis("dim", rank)};
  NodeId product = log ? g : mul(c, g, y);
  NodeId sum = c.b.reduce(ReduceOp::kSum, product, axis, true);
  c.result(log ? sub(c, g, mul(c, c.b.unary(UnaryOp::kExp, y), sum))
               : sub(c, product, mul(c, y, sum)));
}

std::vector<int> last_axes(Context& c, NodeId x, size_t count) {
  int rank = c.b.rank(x);
  if (static_cast<int>(count) > rank) c.refuse("more normalised axes than there are");
  std::vector<int> axes(count);
  std::iota(axes.begin(), axes.end(), rank - static_cast<int>(count));
  return axes;
}

// x * weight + bias, each where given, after `shaped` has given it axes to broadcast over.
template <class Shaped>
NodeId scale_and_shift(Context& c, NodeId x, Shaped shaped) {
  if (auto weight = c.optional_tensor("weight")) {
    x = mul(c, x, shaped(c.b.cast(*weight, c.b.dtype(x))));
  }
  if (auto bias = c.optional_tensor("bias")) {
    x = add(c, x, shaped(c.b.cast(*bias, c.b.dtype(x))));
  }
  return x;
}

void layer_norm(Context& c) {
  NodeId x = float_tensor(c, "input");
  std::vector<int> axes = last_axes(c, x, c.sizes("normalized_shape").size());
  double epsilon = c.number("eps", 1e-5);
  NodeId centred = sub(c, x, mean(c, x, axes));
  NodeId rstd =
      c.b.unary(UnaryOp::kRsqrt, add(c, mean(c, mul(c, centred, centred), axes), epsilon));
  NodeId out = scale_and_shift(c, mul(c, centred, rstd), [](NodeId w) { return w; });
  c.result(out);
  if (c.wants_output(1)) c.result(mean(c, x, axes), 1);
  if (c.wants_output(2)) c.result(rstd, 2);
}

void rms_norm(Context& c) {
  NodeId x = float_tensor(c, "input");
  std::vector<int> axes = last_axes(c, x, c.sizes("normalized_shape").size());
  bool wide = c.b.dtype(x) == DType::kFloat64;
  double epsilon = c.number("eps", wide ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  NodeId rstd = c.b.unary(UnaryOp::kRsqrt, add(c, mean(c, mul(c, x, x), axes), epsilon));
  c.result(scale_and_shift(c, mul(c, x, rstd), [](NodeId w) { return w; }));
  if (c.wants_output(1)) c.result(rstd, 1);
}

void group_norm(Context& c) {
  NodeId x = float_tensor(c, "input");
  Sizes shape = c.b.shape(x);
  int rank = c.b.rank(x);
  if (rank < 2) c.refuse("it takes channels on axis 1");
  int64_t groups = c.integer(c.has("group") ? "group" : "num_groups");
  auto per_group = common::exact_div(shape[1], groups);
  if (!per_group) c.refuse("the groups do not divide the channels");
  Expr rest = *per_group;
  for (size_t k = 2; k < shape.size(); ++k) rest *= shape[k];
  NodeId grouped = c.b.reshape(x, {shape[0], groups, c.b.simplify(rest)});
  double epsilon = c.number("eps", 1e-5);
  NodeId average = mean(c, grouped, {2});
  NodeId centred = sub(c, grouped, average);
  NodeId rstd = c.b.unary(UnaryOp::kRsqrt, add(c, mean(c, mul(c, centred, centred), {2}), epsilon));
  NodeId normal = c.b.reshape(mul(c, centred, rstd), shape);
  c.result(scale_and_shift(c, normal, [&](NodeId w) { return per_channel(c, w, normal); }));
  if (c.wants_output(1)) c.result(c.b.squeeze(average, 2), 1);
  if (c.wants_output(2)) c.result(c.b.squeeze(rstd, 2), 2);
}

// A direction times a length for each slice along one axis; the lengths' norms are result 1.
void weight_norm(Context& c) {
  NodeId v = float_tensor(c, "v");
  NodeId g = float_tensor(c, "g");
  int axis = c.axis("dim", c.b.rank(v), 0);
  std::vector<int> others;
  for (int k = 0; k < c.b.rank(v); ++k) {
    if (k != axis) others.push_back(k);
  }
  NodeId length = norm(c, v, 2, others, true);
  c.result(mul(c, v, div(c, g, length)));
  if (c.wants_output(1)) c.result(length, 1);
}

}  // namespace

void add_norm_operators(OperatorTable* t) {
  t->add("aten.softmax", softmax);
  t->add("aten._softmax", softmax);
  t->add("aten._safe_softmax", safe_softmax);
  t->add("aten.log_softmax", log_softmax);
  t->add("aten._log_softmax", log_softmax);
  t->add("aten._softmax_backward_data", [](Context& c) { softmax_backward(c, false); });
  t->add("aten._log_softmax_backward_data", [](Context& c) { softmax_backward(c, true); });
  t->add("aten.layer_norm", layer_norm);
  t->add("aten.native_layer_norm", layer_norm);
  t->add("aten._weight_norm", weight_norm);
  t->add("aten._weight_norm_interface", weight_norm);
  t->add("aten.rms_norm", rms_norm);
  t->add("aten._fused_rms_norm", rms_norm);
  t->add("aten.group_norm", group_norm);
  t->add("aten.native_group_norm", group_norm);
}

}  // namespace clients
