// Convolutions: views of sliding windows, then a product and a sum.
#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/families/window.h"

namespace clients {
namespace {

size_t at(int axis) { return static_cast<size_t>(axis); }

struct Convolution {
  Window window;
  int64_t groups = 1;
  bool transposed = false;
};

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
    Expr t = Expr::index(axes.tap + static_cast<int>(k));
    Expr size = from[2 + k];
    if (!conv.transposed) {
      Expr position = tap(conv.window, k, o, t);
      view.index.push_back(position);
      view.valid.push_back({position, size});
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
    view.index.push_back(Expr::index(axes.tap + static_cast<int>(k)));
  }
  return c.b.view(w, view);
}

NodeId convolve(Context& c, NodeId x, NodeId weight, const Convolution& conv, const Shape& out) {
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
  shape.insert(shape.end(), conv.window.kernel.begin(), conv.window.kernel.end());
  NodeId product =
      mul(c, spread_input(c, x, conv, axes, shape), spread_weight(c, weight, conv, axes, shape));
  std::vector<int> summed;
  for (int k = 0; k <= spatial; ++k) summed.push_back(axes.channel_in + k);
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

void convolution(Context& c, bool transposed) {
  NodeId x = c.tensor("input");
  NodeId weight = c.tensor("weight");
  DType d = compute_dtype(c.b.dtype(x));
  if (c.b.dtype(weight) != c.b.dtype(x)) c.refuse("the operands differ in dtype");
  int spatial = c.b.rank(weight) - 2;
  if (spatial < 1 || spatial > 3) c.refuse("it takes one to three spatial axes");
  x = c.b.cast(x, d);
  weight = c.b.cast(weight, d);
  Convolution conv;
  conv.transposed = transposed || c.flag("transposed", false);
  conv.groups = c.integer("groups", 1);
  bool unbatched = c.b.rank(x) == spatial + 1;
  if (unbatched) x = c.b.unsqueeze(x, 0);
  if (c.b.rank(x) != spatial + 2) c.refuse("the input has another rank");
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
  Sizes out = c.out_shape();
  if (unbatched) out.insert(out.begin(), Expr(1));
  if (c.b.rank(x) != static_cast<int>(out.size())) c.refuse("the result has another rank");
  NodeId y = convolve(c, x, weight, conv, out);
  if (auto bias = c.optional_tensor("bias")) {
    Shape shape(at(spatial + 2), Expr(1));
    shape[1] = out[1];
    y = add(c, y, c.b.reshape(c.b.cast(*bias, d), shape));
  }
  c.result(unbatched ? c.b.squeeze(y, 0) : y);
}

}  // namespace

void add_convolution_operators(OperatorTable* t) {
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
