// Gradients of the normalisations, from the statistics that their forward passes saved.
#include <algorithm>
#include <numeric>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// Axes of x that `axes` does not name.
std::vector<int> other_axes(Context& c, NodeId x, const std::vector<int>& axes) {
  std::vector<int> out;
  for (int k = 0; k < c.b.rank(x); ++k) {
    if (std::find(axes.begin(), axes.end(), k) == axes.end()) out.push_back(k);
  }
  return out;
}

// The gradient through (x - mean(x)) * rstd over `axes`, where `normal` is its result: the part of
// g that changes neither mean nor, with `normal`, the variance.
NodeId through_norm(Context& c, NodeId g, NodeId normal, NodeId rstd, const std::vector<int>& axes,
                    bool centred) {
  NodeId along_normal = mul(c, normal, mean(c, mul(c, g, normal), axes));
  NodeId rest = centred ? sub(c, g, mean(c, g, axes)) : g;
  return mul(c, rstd, sub(c, rest, along_normal));
}

// The saved statistic with its missing axes put back.
NodeId saved(Context& c, std::string_view name, const Shape& shape, DType d) {
  return c.b.reshape(c.b.cast(c.tensor(name), d), shape);
}

// Gradients to input, weight and bias; those of RMS norm have no bias.
void layer_norm_backward(Context& c, bool centred) {
  NodeId x = float_tensor(c, "input");
  DType d = c.b.dtype(x);
  NodeId g = c.b.cast(c.tensor("grad_out"), d);
  size_t count = c.sizes("normalized_shape").size();
  if (static_cast<int>(count) > c.b.rank(x)) c.refuse("more normalised axes than there are");
  std::vector<int> axes(count);
  std::iota(axes.begin(), axes.end(), c.b.rank(x) - static_cast<int>(count));
  Shape kept = c.b.shape(x);
  for (int axis : axes) kept[static_cast<size_t>(axis)] = 1;
  NodeId rstd = saved(c, "rstd", kept, d);
  NodeId normal = mul(c, centred ? sub(c, x, saved(c, "mean", kept, d)) : x, rstd);
  NodeId scaled = c.has("weight") ? mul(c, g, c.b.cast(c.tensor("weight"), d)) : g;
  c.result(through_norm(c, scaled, normal, rstd, axes, centred));
  std::vector<int> outer = other_axes(c, x, axes);
  if (c.wants_output(1)) c.result(c.b.reduce(ReduceOp::kSum, mul(c, g, normal), outer), 1);
  if (c.wants_output(2)) c.result(c.b.reduce(ReduceOp::kSum, g, outer), 2);
}

void group_norm_backward(Context& c) {
  NodeId x = float_tensor(c, "input");
  DType d = c.b.dtype(x);
  NodeId g = c.b.cast(c.tensor("grad_out"), d);
  Sizes shape = c.b.shape(x);
  if (shape.size() < 2) c.refuse("it takes channels on axis 1");
  int64_t groups = c.integer("group");
  auto per_group = common::exact_div(shape[1], groups);
  if (!per_group) c.refuse("the groups do not divide the channels");
  Expr rest = 1;
  for (size_t k = 2; k < shape.size(); ++k) rest *= shape[k];
  Shape grouped = {shape[0], groups, *per_group, c.b.simplify(rest)};
  Shape kept = {shape[0], groups, 1, 1};
  NodeId rstd = saved(c, "rstd", kept, d);
  NodeId normal = mul(c, sub(c, c.b.reshape(x, grouped), saved(c, "mean", kept, d)), rstd);
  NodeId scaled = g;
  if (auto weight = c.optional_tensor("weight")) scaled = mul(c, g, per_channel(c, *weight, x));
  scaled = c.b.reshape(scaled, grouped);
  if (c.wants_output(0)) {
    c.result(c.b.reshape(through_norm(c, scaled, normal, rstd, {2, 3}, true), shape));
  }
  std::vector<int> outer = other_axes(c, x, {1});
  auto to_channels = [&](NodeId y) { return c.b.reduce(ReduceOp::kSum, y, outer); };
  if (c.wants_output(1)) c.result(to_channels(mul(c, g, c.b.reshape(normal, shape))), 1);
  if (c.wants_output(2)) c.result(to_channels(g), 2);
}

// `training`: the statistics are the batch's own, and the gradient goes through them.
void batch_norm_backward(Context& c, bool training, std::string_view gradient,
                         std::string_view spread) {
  NodeId x = float_tensor(c, "input");
  if (c.b.rank(x) < 2) c.refuse("it takes channels on axis 1");
  DType d = c.b.dtype(x);
  NodeId g = c.b.cast(c.tensor(gradient), d);
  std::vector<int> axes = other_axes(c, x, {1});
  NodeId average, rstd;
  if (training) {
    average = per_channel(c, c.tensor("save_mean"), x);
    rstd = per_channel(c, c.tensor(spread), x);
  } else {
    average = per_channel(c, c.tensor("running_mean"), x);
    NodeId variance = per_channel(c, c.tensor("running_var"), x);
    double epsilon = c.number(c.has("eps") ? "eps" : "epsilon", 1e-5);
    rstd = c.b.unary(UnaryOp::kRsqrt, add(c, variance, epsilon));
  }
  NodeId normal = mul(c, sub(c, x, average), rstd);
  NodeId scaled = g;
  if (auto weight = c.optional_tensor("weight")) scaled = mul(c, g, per_channel(c, *weight, x));
  if (c.wants_output(0)) {
    c.result(training ? through_norm(c, scaled, normal, rstd, axes, true) : mul(c, scaled, rstd));
  }
  if (c.wants_output(1)) c.result(c.b.reduce(ReduceOp::kSum, mul(c, g, normal), axes), 1);
  if (c.wants_output(2)) c.result(c.b.reduce(ReduceOp::kSum, g, axes), 2);
}

// Of v * (g / |v|), where the norms run over every axis but one.
void weight_norm_backward(Context& c) {
  NodeId v = float_tensor(c, "saved_v");
  DType d = c.b.dtype(v);
  NodeId gradient = c.b.cast(c.tensor("grad_w"), d);
  NodeId g = c.b.cast(c.tensor("saved_g"), d);
  NodeId length = c.b.cast(c.tensor("saved_norms"), d);
  std::vector<int> others = other_axes(c, v, {c.axis("dim", c.b.rank(v))});
  NodeId unit = div(c, v, length);
  NodeId along_unit = c.b.reduce(ReduceOp::kSum, mul(c, gradient, unit), others, true);
  c.result(mul(c, div(c, g, length), sub(c, gradient, mul(c, unit, along_unit))));
  if (c.wants_output(1)) c.result(along_unit, 1);
}

}  // namespace

void add_norm_backward_operators(OperatorTable* t) {
  t->add("aten.native_layer_norm_backward", [](Context& c) { layer_norm_backward(c, true); });
  t->add("aten._fused_rms_norm_backward", [](Context& c) { layer_norm_backward(c, false); });
  t->add("aten.native_group_norm_backward", group_norm_backward);
  t->add("aten.native_batch_norm_backward", [](Context& c) {
    batch_norm_backward(c, c.flag("train", false), "grad_out", "save_invstd");
  });
  t->add("aten.batch_norm_backward", [](Context& c) {
    batch_norm_backward(c, c.flag("update", false), "grad_out", "save_var");
  });
  t->add("aten.cudnn_batch_norm_backward",
         [](Context& c) { batch_norm_backward(c, true, "grad_output", "save_var"); });
  t->add("aten._weight_norm_interface_backward", weight_norm_backward);
}

}  // namespace clients
