// Convolutions: views of sliding windows, then a product and a sum.
#include <algorithm>
#include <optional>
#include <utility>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/images/window.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

// The taps of one axis that are summed: first + step * u for u < count.
struct TapRange {
  int64_t first = 0, step = 1, count = 0;
  Expr at(const Expr& u) const { return Expr(first) + u * Expr(step); }
};

// Of the places o = place * stride + phase along one axis: where a transposed convolution reads its
// taps, the one of `u` at input place `place + shift - u * pace`.
struct Phase {
  int64_t shift = 0, pace = 1;
};

struct Convolution {
  Window window;
  int64_t groups = 1;
  bool transposed = false;
  std::vector<TapRange> taps;  // by axis
  // Of a transposed one, by axis: the phase that is computed. Empty: all places at once.
  std::vector<Phase> phases;
};

// Output place o gets input place i where o + padding = i * stride + t * dilation.
std::pair<TapRange, Phase> phase_of(const Window& window, size_t axis, int64_t phase) {
  TapRange taps;
  Phase result;
  const int64_t stride = window.stride[axis];
  int64_t last = -1;
  for (int64_t t = 0; t < window.kernel[axis]; ++t) {
    const int64_t reach = phase + window.padding[axis] - t * window.dilation[axis];
    if (reach % stride != 0) continue;
    if (taps.count == 0) {
      taps.first = t;
      result.shift = reach / stride;
    } else if (taps.count == 1) {
      taps.step = t - last;
    }
    last = t;
    ++taps.count;
  }
  result.pace = taps.step * window.dilation[axis] / stride;
  return {taps, result};
}

// Whether tap t lies on one of `size` elements at some of `places` places.
bool is_read(const Window& window, size_t axis, int64_t t, int64_t size, int64_t places) {
  const int64_t stride = window.stride[axis];
  const int64_t before = window.padding[axis] - t * window.dilation[axis];
  const int64_t place = std::max<int64_t>(0, (before + stride - 1) / stride);
  return place < places && place * stride - before < size;
}

// From the first tap that is read to the last, one where none is, if sizes are known. A kernel
// whose dilation exceeds the image has taps that lie in the padding at every place: 3 x 3 taps that
// are 24 apart are one tap on an image of 14 x 14.
TapRange taps_read(const Window& window, size_t axis, const Expr& size, const Expr& places) {
  const int64_t kernel = window.kernel[axis];
  TapRange taps{0, 1, kernel};
  if (!size.is_constant() || !places.is_constant()) return taps;
  auto is_outside = [&](int64_t t) {
    return !is_read(window, axis, t, size.constant(), places.constant());
  };
  while (taps.count > 1 && is_outside(taps.first)) ++taps.first, --taps.count;
  while (taps.count > 1 && is_outside(taps.first + taps.count - 1)) --taps.count;
  return taps;
}

// Axes of the product: batch, (group,) channel out, *places, channel in, *kernel.
struct ProductAxes {
  int group = -1, channel_out = 0, place = 0, channel_in = 0, tap = 0;
};

NodeId spread_input(Context& c, NodeId x, const Convolution& conv, const ProductAxes& axes,
                    const Shape& shape) {
  Sizes from = c.b.shape(x);
  View view;
  view.shape = shape;
  view.shape[at(axes.channel_out)] = 1;
  Expr channel = Expr::index(axes.channel_in);
  if (axes.group >= 0) channel += Expr::index(axes.group) * shape[at(axes.channel_in)];
  view.index = {Expr::index(0), channel};
  for (size_t k = 0; k < conv.window.kernel.size(); ++k) {
    Expr o = Expr::index(axes.place + static_cast<int>(k));
    Expr u = Expr::index(axes.tap + static_cast<int>(k));
    Expr t = conv.taps[k].at(u);
    Expr size = from[2 + k];
    if (!conv.transposed) {
      Expr position = tap(conv.window, k, o, t);
      view.index.push_back(position);
      view.valid.push_back({position, size});
      continue;
    }
    if (!conv.phases.empty()) {
      const Phase& phase = conv.phases[k];
      Expr place = o + Expr(phase.shift) - u * Expr(phase.pace);
      view.index.push_back(place);
      view.valid.push_back({place, size});
      continue;
    }
    // Output place o gets input place i where o + padding = i * stride + t * dilation.
    Expr reach = o + Expr(conv.window.padding[k]) - t * Expr(conv.window.dilation[k]);
    Expr position = common::floor_div(reach, conv.window.stride[k]);
    view.index.push_back(position);
    view.valid.push_back({position, size});
    view.valid.push_back({common::mod(reach, conv.window.stride[k]), 1});
  }
  return c.b.view(x, view);
}

NodeId spread_weight(Context& c, NodeId w, const Convolution& conv, const ProductAxes& axes,
                     const Shape& shape) {
  View view;
  view.shape = shape;
  view.shape[0] = 1;
  for (size_t k = 0; k < conv.window.kernel.size(); ++k) view.shape[at(axes.place) + k] = 1;
  Expr out = Expr::index(axes.channel_out);
  Expr in = Expr::index(axes.channel_in);
  if (axes.group >= 0) {
    Expr group = Expr::index(axes.group);
    (conv.transposed ? in : out) +=
        group * shape[at(conv.transposed ? axes.channel_in : axes.channel_out)];
  }
  view.index = conv.transposed ? std::vector<Expr>{in, out} : std::vector<Expr>{out, in};
  for (size_t k = 0; k < conv.window.kernel.size(); ++k) {
    view.index.push_back(conv.taps[k].at(Expr::index(axes.tap + static_cast<int>(k))));
  }
  return c.b.view(w, view);
}

NodeId sum_of_products(Context& c, NodeId x, NodeId weight, const Convolution& conv,
                       const Shape& out) {
  int spatial = static_cast<int>(conv.window.kernel.size());
  const Expr& channels_out = out[1];
  Expr channels_in = c.b.size(x, 1);
  auto group_out = common::exact_div(channels_out, conv.groups);
  auto group_in = common::exact_div(channels_in, conv.groups);
  if (!group_out || !group_in) c.refuse("the groups do not divide the channels");
  ProductAxes axes;
  Shape shape = {out[0]};
  if (conv.groups > 1) {
    axes.group = 1;
    shape.push_back(conv.groups);
  }
  axes.channel_out = static_cast<int>(shape.size());
  shape.push_back(*group_out);
  axes.place = static_cast<int>(shape.size());
  shape.insert(shape.end(), out.begin() + 2, out.end());
  axes.channel_in = static_cast<int>(shape.size());
  shape.push_back(*group_in);
  axes.tap = static_cast<int>(shape.size());
  for (const TapRange& taps : conv.taps) shape.emplace_back(taps.count);
  NodeId product =
      mul(c, spread_input(c, x, conv, axes, shape), spread_weight(c, weight, conv, axes, shape));
  std::vector<int> summed;
  for (int k = 0; k <= spatial; ++k) summed.push_back(axes.channel_in + k);
  return c.b.reshape(c.b.reduce(ReduceOp::kSum, product, summed), out);
}

// The phases of all axes together; each is a row of one number an axis.
std::vector<std::vector<int64_t>> phases_of(const std::vector<int64_t>& stride) {
  std::vector<std::vector<int64_t>> rows{{}};
  for (int64_t step : stride) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& row : rows) {
      for (int64_t phase = 0; phase < step; ++phase) {
        longer.push_back(row);
        longer.back().push_back(phase);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

// A transposed convolution with strides is several with stride 1, of the places of each phase, with
// the taps that they read. As one it would multiply as many zeros as its strides' product says.
NodeId convolve_by_phases(Context& c, NodeId x, NodeId weight, const Convolution& conv,
                          const Shape& out) {
  std::optional<NodeId> sum;
  for (const std::vector<int64_t>& row : phases_of(conv.window.stride)) {
    Convolution one = conv;
    one.taps.clear();
    Shape places = out;
    View view;
    view.shape = out;
    view.index = {Expr::index(0), Expr::index(1)};
    bool is_empty = false;
    for (size_t k = 0; k < row.size(); ++k) {
      const Expr stride = conv.window.stride[k];
      auto [taps, phase] = phase_of(conv.window, k, row[k]);
      one.taps.push_back(taps);
      one.phases.push_back(phase);
      is_empty = is_empty || taps.count == 0;
      places[2 + k] = c.b.simplify(common::floor_div(out[2 + k] - 1, stride) + 1);
      const Expr place = Expr::index(static_cast<int>(2 + k));
      view.index.push_back(common::floor_div(place, stride));
      if (conv.window.stride[k] > 1) {
        view.valid.push_back({common::mod(place, stride) - Expr(row[k]), 1});
      }
    }
    if (is_empty) continue;
    NodeId part = c.b.view(sum_of_products(c, x, weight, one, places), view);
    sum = sum ? add(c, *sum, part) : part;
  }
  return sum ? *sum : c.b.full(c.b.dtype(x), out, 0);
}

NodeId convolve(Context& c, NodeId x, NodeId weight, Convolution conv, const Shape& out) {
  for (size_t k = 0; k < conv.window.kernel.size(); ++k) {
    conv.taps.push_back(
        conv.transposed
            ? TapRange{0, 1, conv.window.kernel[k]}
            : taps_read(conv.window, k, c.b.size(x, static_cast<int>(k) + 2), out[k + 2]));
  }
  // More would be more kernels than the zeros are worth.
  constexpr int64_t kPhasesMax = 16;
  int64_t phases = 1;
  for (int64_t step : conv.window.stride) {
    phases = std::min(phases * std::min(step, kPhasesMax + 1), kPhasesMax + 1);
  }
  if (!conv.transposed || phases == 1 || phases > kPhasesMax) {
    return sum_of_products(c, x, weight, conv, out);
  }
  return convolve_by_phases(c, x, weight, conv, out);
}

// What a weight gets from the input and the gradient of a convolution's output: a contraction over
// the batch and the places of one of them,
//   out[a, b, t] = sum over n, o of places[n, a, o] * taps[n, b, o * stride + t * dilation -
//   padding]
// with a and b within the same group. `places` is the output's gradient and `taps` the input; of a
// transposed convolution it is the other way round.
NodeId weight_gradient(Context& c, NodeId places, NodeId taps, const Convolution& conv,
                       const Shape& out) {
  int spatial = static_cast<int>(conv.window.kernel.size());
  Sizes small = c.b.shape(places);
  Sizes large = c.b.shape(taps);
  auto rows = common::exact_div(small[1], conv.groups);
  if (!rows) c.refuse("the groups do not divide the channels");
  // Group, row, column, *kernel, batch, *places.
  Shape shape = {conv.groups, *rows, out[1]};
  shape.insert(shape.end(), out.begin() + 2, out.end());
  int batch = static_cast<int>(shape.size());
  shape.push_back(small[0]);
  shape.insert(shape.end(), small.begin() + 2, small.end());

  View of_places, of_taps;
  of_places.shape = of_taps.shape = shape;
  of_places.shape[2] = 1;
  of_taps.shape[1] = 1;
  of_places.index = {Expr::index(batch), Expr::index(0) * *rows + Expr::index(1)};
  of_taps.index = {Expr::index(batch), Expr::index(0) * out[1] + Expr::index(2)};
  for (int k = 0; k < spatial; ++k) {
    of_places.shape[at(3 + k)] = 1;
    Expr place = Expr::index(batch + 1 + k);
    of_places.index.push_back(place);
    Expr position = tap(conv.window, at(k), place, Expr::index(3 + k));
    of_taps.index.push_back(position);
    of_taps.valid.push_back({position, large[at(2 + k)]});
  }
  NodeId product = mul(c, c.b.view(places, of_places), c.b.view(taps, of_taps));
  std::vector<int> summed;
  for (int k = batch; k <= batch + spatial; ++k) summed.push_back(k);
  return c.b.reshape(c.b.reduce(ReduceOp::kSum, product, summed), out);
}

// "same" and "valid" are names for paddings.
void apply_padding_mode(Context& c, Window* w) {
  if (c.text("padding", "valid") == "valid") return;
  if (c.text("padding", "") != "same") c.refuse("unknown padding");
  for (size_t k = 0; k < w->kernel.size(); ++k) {
    int64_t total = w->dilation[k] * (w->kernel[k] - 1);
    w->padding[k] = total / 2;  // an odd total pads its one more element behind
  }
}

// The node's arguments but for its tensors; the weight's axes are channels and the kernel.
Convolution convolution_of(Context& c, NodeId weight, bool transposed) {
  int spatial = c.b.rank(weight) - 2;
  if (spatial < 1 || spatial > 3) c.refuse("it takes one to three spatial axes");
  Convolution conv;
  conv.transposed = transposed || c.flag("transposed", false);
  conv.groups = c.integer("groups", 1);
  if (conv.groups < 1) c.refuse("groups must be positive");
  for (int k = 0; k < spatial; ++k) {
    Expr size = c.b.size(weight, k + 2);
    if (!size.is_constant()) c.refuse("the kernel's size is symbolic");
    conv.window.kernel.push_back(size.constant());
  }
  conv.window.stride = per_axis(c, "stride", spatial, {1});
  conv.window.dilation = per_axis(c, "dilation", spatial, {1});
  bool by_name = c.has("padding") && c.is_text("padding");
  conv.window.padding =
      by_name ? std::vector<int64_t>(at(spatial), 0) : per_axis(c, "padding", spatial, {0});
  if (by_name) apply_padding_mode(c, &conv.window);
  return conv;
}

void convolution(Context& c, bool transposed) {
  NodeId x = c.tensor("input");
  NodeId weight = c.tensor("weight");
  DType d = compute_dtype(c.b.dtype(x));
  if (c.b.dtype(weight) != c.b.dtype(x)) c.refuse("the operands differ in dtype");
  Convolution conv = convolution_of(c, weight, transposed);
  int spatial = c.b.rank(weight) - 2;
  x = c.b.cast(x, d);
  weight = c.b.cast(weight, d);
  bool unbatched = c.b.rank(x) == spatial + 1;
  if (unbatched) x = c.b.unsqueeze(x, 0);
  if (c.b.rank(x) != spatial + 2) c.refuse("the input has another rank");
  Sizes out = c.out_shape();
  if (unbatched) out.insert(out.begin(), Expr(1));
  if (c.b.rank(x) != static_cast<int>(out.size())) c.refuse("the result has another rank");
  NodeId y = convolve(c, x, weight, std::move(conv), out);
  if (auto bias = c.optional_tensor("bias")) {
    Shape shape(at(spatial + 2), Expr(1));
    shape[1] = out[1];
    y = add(c, y, c.b.reshape(c.b.cast(*bias, d), shape));
  }
  c.result(unbatched ? c.b.squeeze(y, 0) : y);
}

// The gradient to the input is a convolution of the output's gradient the other way: transposed
// where the forward one is not.
void convolution_backward(Context& c) {
  NodeId x = c.tensor("input");
  NodeId weight = c.tensor("weight");
  NodeId gradient = c.tensor("grad_output");
  DType d = compute_dtype(c.b.dtype(x));
  if (c.b.dtype(weight) != c.b.dtype(x)) c.refuse("the operands differ in dtype");
  Convolution conv = convolution_of(c, weight, false);
  int rank = c.b.rank(weight);
  if (c.b.rank(x) != rank || c.b.rank(gradient) != rank) c.refuse("the input has another rank");
  x = c.b.cast(x, d);
  gradient = c.b.cast(gradient, d);
  if (c.wants_output(0)) {
    Convolution back = conv;
    back.transposed = !conv.transposed;
    c.result(convolve(c, gradient, c.b.cast(weight, d), std::move(back), c.out_shape(0)), 0);
  }
  if (c.wants_output(1)) {
    NodeId places = conv.transposed ? x : gradient;
    NodeId taps = conv.transposed ? gradient : x;
    c.result(weight_gradient(c, places, taps, conv, c.b.shape(weight)), 1);
  }
  if (c.wants_output(2)) {
    std::vector<int> axes = {0};
    for (int k = 2; k < rank; ++k) axes.push_back(k);
    c.result(c.b.reduce(ReduceOp::kSum, gradient, axes), 2);
  }
}

}  // namespace

void add_convolution_operators(OperatorTable* t) {
  t->add("aten.convolution_backward", convolution_backward);
  t->add("aten.convolution", [](Context& c) { convolution(c, false); });
  for (const char* name : {"aten.conv1d", "aten.conv2d", "aten.conv3d"}) {
    t->add(name, [](Context& c) { convolution(c, false); });
  }
  for (const char* name :
       {"aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"}) {
    t->add(name, [](Context& c) { convolution(c, true); });
  }
}

}  // namespace clients
