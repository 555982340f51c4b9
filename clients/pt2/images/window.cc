// Sliding windows, and the operators that lay them out or add them up.
#include "clients/pt2/images/window.h"

#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "common/ir/expr/index.h"

namespace clients {

using common::at;

std::vector<int64_t> per_axis(Context& c, std::string_view name, int spatial,
                              std::vector<int64_t> fallback) {
  std::vector<int64_t> out = c.integers(name, {});
  if (out.empty()) out = std::move(fallback);
  if (out.size() == 1) out.resize(at(spatial), out[0]);
  if (static_cast<int>(out.size()) != spatial) c.refuse(std::string(name) + " has another length");
  // Only paddings may be zero or (to crop) negative.
  bool positive = std::all_of(out.begin(), out.end(), [](int64_t number) { return number > 0; });
  if (name != "padding" && !positive) c.refuse(std::string(name) + " must be positive");
  return out;
}

Expr tap(const Window& w, size_t k, const Expr& o, const Expr& t) {
  return o * Expr(w.stride[k]) + t * Expr(w.dilation[k]) - Expr(w.padding[k]);
}

NodeId windows(Context& c, NodeId x, const Window& w, const Shape& out, double fill) {
  Sizes shape = c.b.shape(x);
  size_t spatial = w.kernel.size();
  size_t lead = shape.size() - spatial;
  View view;
  for (size_t k = 0; k < lead; ++k) {
    view.shape.push_back(shape[k]);
    view.index.push_back(Expr::index(static_cast<int>(k)));
  }
  view.shape.insert(view.shape.end(), out.begin(), out.end());
  view.shape.insert(view.shape.end(), w.kernel.begin(), w.kernel.end());
  for (size_t k = 0; k < spatial; ++k) {
    Expr position = tap(w, k, Expr::index(static_cast<int>(lead + k)),
                        Expr::index(static_cast<int>(lead + spatial + k)));
    view.index.push_back(position);
    view.valid.push_back({position, shape[lead + k]});
  }
  view.fill = fill;
  return c.b.view(x, view);
}

namespace {

Window window_of(Context& c) {
  Window w;
  w.kernel = per_axis(c, "kernel_size", 2, {});
  w.stride = per_axis(c, "stride", 2, {1});
  w.padding = per_axis(c, "padding", 2, {0});
  w.dilation = per_axis(c, "dilation", 2, {1});
  return w;
}

// How many windows lie along an axis of the image.
Expr places(Context& c, const Window& w, size_t axis, const Expr& size) {
  Expr room = size + Expr(2 * w.padding[axis] - w.dilation[axis] * (w.kernel[axis] - 1) - 1);
  return c.b.simplify(common::floor_div(room, w.stride[axis]) + 1);
}

// (batch, channel, height, width) to (batch, channel * kernel, places).
void im2col(Context& c) {
  Window w = window_of(c);
  NodeId x = c.tensor("self");
  Sizes shape = c.b.shape(x);
  if (shape.size() < 3) c.refuse("the input has another rank");
  Shape out;
  for (size_t k = 0; k < 2; ++k) out.push_back(places(c, w, k, shape[shape.size() - 2 + k]));
  NodeId windowed = windows(c, x, w, out, 0);
  int lead = c.b.rank(windowed) - 4;
  std::vector<int> order;
  for (int k = 0; k < lead; ++k) order.push_back(k);
  for (int k : {2, 3, 0, 1}) order.push_back(lead + k);
  c.set(c.b.reshape(c.b.permute(windowed, order), c.out_shape()));
}

// The sum of overlapping patches, (batch, channel * kernel, places) to (batch, channel, height,
// width): place h takes patch row k where h + padding - k * dilation is a multiple of the stride.
void col2im(Context& c) {
  Window w = window_of(c);
  NodeId x = c.tensor("self");
  bool batched = c.b.rank(x) == 3;
  if (!batched) x = c.b.unsqueeze(x, 0);
  Sizes shape = c.b.shape(x);
  std::vector<Expr> sizes = c.sizes("output_size");
  if (shape.size() != 3 || sizes.size() != 2) c.refuse("it takes (batch, patches, places)");
  auto channels = common::exact_div(shape[1], w.kernel[0] * w.kernel[1]);
  if (!channels) c.refuse("the kernel does not divide the patches");
  Shape patches = {shape[0], *channels, w.kernel[0], w.kernel[1]};
  View view;
  view.shape = {shape[0], *channels, sizes[0], sizes[1], w.kernel[0], w.kernel[1]};
  view.index = {Expr::index(0), Expr::index(1), Expr::index(4), Expr::index(5)};
  for (size_t k = 0; k < 2; ++k) {
    patches.push_back(places(c, w, k, sizes[k]));
    int axis = static_cast<int>(k);
    Expr from =
        Expr::index(2 + axis) + Expr(w.padding[k]) - Expr::index(4 + axis) * Expr(w.dilation[k]);
    Expr place = common::floor_div(from, w.stride[k]);
    view.index.push_back(place);
    view.valid.push_back({place, patches.back()});
    if (w.stride[k] > 1) view.valid.push_back({common::mod(from, w.stride[k]), 1});
  }
  DType d = compute_dtype(c.b.dtype(x));
  NodeId spread = c.b.view(c.b.reshape(c.b.cast(x, d), patches), view);
  NodeId sum = c.b.reduce(ReduceOp::kSum, spread, {4, 5});
  c.result(batched ? sum : c.b.squeeze(sum, 0));
}

}  // namespace

void add_window_operators(OperatorTable* t) {
  t->add("aten.im2col", im2col);
  t->add("aten.col2im", col2im);
}

}  // namespace clients
