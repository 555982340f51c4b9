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

// The elements of patches that lie at the places of an image along one axis. Place h + padding is
// number * stride + offset, and takes rows offset + step * stride of patches number - step. Where a
// patch's rows lie apart, each place asks all of them whether they lie there: there is one offset.
struct Cover {
  Expr numbers;
  int64_t offsets = 1, steps = 1;
  Expr row, patch;  // over number, offset and step
  std::vector<common::Validity> valid;
  Expr number, offset;  // of a place
};

// For the axis' number, offset and step among the indices of sums, and its place in the image.
Cover cover_of(const Window& w, size_t axis, const Expr& size) {
  const auto k = static_cast<int>(axis);
  const Expr number = Expr::index(2 + 2 * k), offset = Expr::index(3 + 2 * k);
  const Expr step = Expr::index(6 + k), place = Expr::index(2 + k);
  const Expr stride(w.stride[axis]), padding(w.padding[axis]), kernel(w.kernel[axis]);
  if (w.dilation[axis] != 1) {
    const Expr from = number + padding - step * Expr(w.dilation[axis]);
    Cover cover{size, 1, w.kernel[axis], step, common::floor_div(from, stride), {}, place, 0};
    if (w.stride[axis] > 1) cover.valid.push_back({common::mod(from, stride), 1});
    return cover;
  }
  Cover cover{common::floor_div(size + padding + stride - Expr(1), stride), w.stride[axis]};
  cover.steps = (w.kernel[axis] + w.stride[axis] - 1) / w.stride[axis];
  cover.row = offset + step * stride;
  cover.patch = number - step;
  cover.valid.push_back({cover.row, kernel});
  cover.number = common::floor_div(place + padding, stride);
  cover.offset = common::mod(place + padding, stride);
  return cover;
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
  const std::vector<Cover> covers{cover_of(w, 0, sizes[0]), cover_of(w, 1, sizes[1])};
  Shape patches = {shape[0], *channels, w.kernel[0], w.kernel[1]};
  // Terms (batch, channel, number, offset, number, offset, step, step), which the sums leave
  // without steps.
  View terms, image;
  terms.shape = {shape[0], *channels};
  terms.index = {Expr::index(0), Expr::index(1), covers[0].row, covers[1].row};
  image.index = {Expr::index(0), Expr::index(1)};
  image.shape = {shape[0], *channels, sizes[0], sizes[1]};
  for (size_t k = 0; k < 2; ++k) {
    const Cover& cover = covers[k];
    patches.push_back(places(c, w, k, sizes[k]));
    terms.shape.insert(terms.shape.end(), {cover.numbers, Expr(cover.offsets)});
    terms.index.push_back(cover.patch);
    terms.valid.insert(terms.valid.end(), cover.valid.begin(), cover.valid.end());
    terms.valid.push_back({cover.patch, patches.back()});
    image.index.insert(image.index.end(), {cover.number, cover.offset});
  }
  for (const Cover& cover : covers) terms.shape.emplace_back(cover.steps);
  DType d = compute_dtype(c.b.dtype(x));
  NodeId elements = c.b.view(c.b.reshape(c.b.cast(x, d), patches), terms);
  NodeId sum = c.b.view(c.b.reduce(ReduceOp::kSum, elements, {6, 7}), image);
  c.result(batched ? sum : c.b.squeeze(sum, 0));
}

}  // namespace

void add_window_operators(OperatorTable* t) {
  t->add("aten.im2col", im2col);
  t->add("aten.col2im", col2im);
}

}  // namespace clients
