// Gradients of pools. An element's gradient is a sum over the windows that cover it, which are few
// and known: one where windows do not overlap. Where places follow from the data alone (adaptive
// and fractional maxima) it is a scatter.
#include "clients/pt2/images/pool.h"

#include "clients/pt2/aten/operators.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

std::vector<int> last(int rank, int count) {
  std::vector<int> axes;
  for (int k = rank - count; k < rank; ++k) axes.push_back(k);
  return axes;
}

// What the windows' values are at each element: (..., *windows) to (..., *sizes, *covers), `fill`
// where no window covers it. Cover j of element i is window (i + padding) / stride - j.
NodeId covering(Context& c, NodeId y, const Pooling& p, const Shape& sizes, double fill) {
  Sizes shape = c.b.shape(y);
  size_t spatial = at(p.spatial);
  size_t lead = shape.size() - spatial;
  View view;
  view.fill = fill;
  for (size_t k = 0; k < lead; ++k) {
    view.shape.push_back(shape[k]);
    view.index.push_back(Expr::index(static_cast<int>(k)));
  }
  view.shape.insert(view.shape.end(), sizes.begin(), sizes.end());
  for (size_t k = 0; k < spatial; ++k) {
    int64_t reach = p.window.dilation[k] * (p.window.kernel[k] - 1);
    int64_t stride = p.window.stride[k];
    view.shape.push_back(reach / stride + 1);
    Expr place = Expr::index(static_cast<int>(lead + k)) + Expr(p.window.padding[k]);
    Expr cover = Expr::index(static_cast<int>(lead + spatial + k));
    Expr window = common::floor_div(place, stride) - cover;
    view.index.push_back(window);
    view.valid.push_back({window, shape[lead + k]});
    Expr inside = common::mod(place, stride) + cover * Expr(stride);
    view.valid.push_back({inside, reach + 1});
  }
  return c.b.view(y, view);
}

NodeId gradient_of(Context& c, NodeId x) {
  NodeId g = c.tensor("grad_output");
  if (c.b.rank(g) != c.b.rank(x)) c.refuse("the gradient has another rank");
  return c.b.cast(g, compute_dtype(c.b.dtype(x)));
}

void avg_pool_backward(Context& c, int spatial) {
  Pooling p = pooling(c, spatial, c.b.shape(c.tensor("grad_output")));
  Sizes sizes = c.b.shape(p.x).last(at(spatial));
  NodeId share = averaged(c, p, gradient_of(c, p.x), sizes);
  NodeId covers = covering(c, share, p, sizes, 0);
  c.result(c.b.reduce(ReduceOp::kSum, covers, last(c.b.rank(covers), spatial)));
}

// The row-major number of each element along the last axes, shaped to broadcast over `rank` axes
// of which they begin at `lead`.
NodeId numbers(Context& c, const Shape& sizes, int lead, int rank) {
  NodeId flat = c.b.scalar_int(DType::kInt64, 0);
  for (size_t k = 0; k < sizes.size(); ++k) {
    NodeId place = positions(c, sizes[k], lead + static_cast<int>(k), rank);
    flat = add(c, mul(c, flat, c.b.size_scalar(DType::kInt64, sizes[k])), place);
  }
  return flat;
}

// Each window's gradient flows to the element that its index names.
void max_pool_backward(Context& c, int spatial) {
  NodeId indices = c.tensor("indices");
  Pooling p = pooling(c, spatial, c.b.shape(indices));
  Sizes sizes = c.b.shape(p.x).last(at(spatial));
  NodeId g = gradient_of(c, p.x);
  if (c.b.shape(g) != c.b.shape(indices)) c.refuse("the indices have another shape");
  NodeId covers = covering(c, g, p, sizes, 0);
  NodeId named = covering(c, indices, p, sizes, -1);
  int rank = c.b.rank(covers);
  NodeId own = numbers(c, sizes, rank - 2 * spatial, rank);
  NodeId taken =
      c.b.select(c.b.binary(BinaryOp::kEqual, named, own), covers, number_like(c, covers, 0));
  c.result(c.b.reduce(ReduceOp::kSum, taken, last(rank, spatial)));
}

// The elements that windows cover are, from their side, windows over the windows.
void adaptive_avg_pool_backward(Context& c, int spatial) {
  NodeId x = c.tensor("self");
  NodeId g = gradient_of(c, x);
  Sizes to = c.b.shape(x);
  Sizes sizes = to.last(at(spatial));
  bool is_global = true;
  for (const Expr& size : c.b.shape(g).last(at(spatial))) {
    is_global = is_global && size.is_constant(1);
  }
  if (is_global) {
    NodeId count = c.b.size_scalar(c.b.dtype(g), c.b.simplify(common::element_count(sizes)));
    return c.result(c.b.expand(div(c, g, count), to));
  }
  Adaptive a = adaptive(c, g, to, spatial, 0);
  NodeId share = divided_by_widths(c, g, a.outs, a.sizes);
  NodeId covers = adaptive(c, share, to, spatial, 0).windowed;
  c.result(c.b.reduce(ReduceOp::kSum, covers, last(c.b.rank(covers), spatial)));
}

void scatter_backward(Context& c, int spatial) {
  NodeId x = c.tensor("self");
  NodeId g = gradient_of(c, x);
  NodeId indices = c.tensor("indices");
  if (c.b.shape(g) != c.b.shape(indices)) c.refuse("the indices have another shape");
  auto flat = [&](const Sizes& from) {
    Shape to = from.without_last(at(spatial));
    to.push_back(c.b.simplify(common::element_count(from.last(at(spatial)))));
    return to;
  };
  NodeId base = c.b.full(c.b.dtype(g), flat(c.b.shape(x)), 0);
  Shape line = flat(c.b.shape(g));
  NodeId place = c.b.reshape(indices, line);
  int rank = c.b.rank(base);
  NodeId out =
      c.b.scatter(ScatterMode::kAdd, base, c.b.reshape(g, line), {place}, along(rank, rank - 1));
  c.result(c.b.reshape(out, c.b.shape(x)));
}

}  // namespace

void add_pool_backward_operators(OperatorTable* t) {
  t->add("aten.avg_pool2d_backward", [](Context& c) { avg_pool_backward(c, 2); });
  t->add("aten.avg_pool3d_backward", [](Context& c) { avg_pool_backward(c, 3); });
  t->add("aten.max_pool2d_with_indices_backward", [](Context& c) { max_pool_backward(c, 2); });
  t->add("aten.max_pool3d_with_indices_backward", [](Context& c) { max_pool_backward(c, 3); });
  t->add("aten._adaptive_avg_pool2d_backward",
         [](Context& c) { adaptive_avg_pool_backward(c, 2); });
  t->add("aten._adaptive_avg_pool3d_backward",
         [](Context& c) { adaptive_avg_pool_backward(c, 3); });
  for (const char* name :
       {"aten.adaptive_max_pool2d_backward", "aten.fractional_max_pool2d_backward"}) {
    t->add(name, [](Context& c) { scatter_backward(c, 2); });
  }
  for (const char* name :
       {"aten.adaptive_max_pool3d_backward", "aten.fractional_max_pool3d_backward"}) {
    t->add(name, [](Context& c) { scatter_backward(c, 3); });
  }
}

}  // namespace clients
