// Grids of sampling positions that an affine map makes of an image's coordinates in [-1, 1].
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// Coordinates of the positions along an axis, between the middles of the first and last one, or
// between their outer edges: (length).
NodeId coordinates(Context& c, DType d, const Expr& length, bool align_corners) {
  NodeId place = c.b.iota(d, length);
  NodeId size = c.b.size_scalar(d, length);
  if (align_corners) {
    if (length.is_constant(1)) return c.b.full(d, {length}, 0);
    return add(c, div(c, mul(c, place, 2.0), add(c, size, -1.0)), -1.0);
  }
  return add(c, div(c, add(c, mul(c, place, 2.0), 1.0), size), -1.0);
}

// Homogeneous coordinates of every position, x first: (1, positions, axes + 1).
NodeId base_grid(Context& c, DType d, const std::vector<Expr>& size) {
  bool align = c.flag("align_corners", false);
  size_t axes = size.size() - 2;
  Shape image(size.begin() + 2, size.end());
  image.emplace_back(1);
  std::vector<NodeId> columns;
  for (size_t k = axes; k-- > 0;) {
    Shape line(axes + 1, Expr(1));
    line[k] = image[k];
    NodeId along = c.b.reshape(coordinates(c, d, image[k], align), line);
    columns.push_back(c.b.expand(along, image));
  }
  columns.push_back(c.b.full(d, image, 1));
  NodeId grid = c.b.concat(columns, static_cast<int>(axes));
  Expr positions(1);
  for (size_t k = 0; k < axes; ++k) positions = positions * image[k];
  return c.b.reshape(grid, {Expr(1), positions, Expr(static_cast<int64_t>(axes) + 1)});
}

std::vector<Expr> image_size(Context& c) {
  std::vector<Expr> size = c.sizes("size");
  if (size.size() != 4 && size.size() != 5) c.refuse("it takes images of two or three axes");
  return size;
}

NodeId swapped(Context& c, NodeId x) { return c.b.permute(x, {0, 2, 1}); }

// theta (batch, axes, axes + 1) to (batch, *image, axes).
void affine_grid(Context& c) {
  std::vector<Expr> size = image_size(c);
  NodeId theta = float_tensor(c, "theta");
  NodeId base = base_grid(c, c.b.dtype(theta), size);
  c.result(c.b.reshape(matmul(c, base, swapped(c, theta)), c.out_shape()));
}

// The gradient of a grid (batch, *image, axes) to theta.
void affine_grid_backward(Context& c) {
  std::vector<Expr> size = image_size(c);
  NodeId grad = float_tensor(c, "grad");
  NodeId base = base_grid(c, c.b.dtype(grad), size);
  auto axes = static_cast<int64_t>(size.size()) - 2;
  NodeId rows = c.b.reshape(grad, {size[0], c.b.size(base, 1), Expr(axes)});
  c.result(matmul(c, swapped(c, rows), base));
}

}  // namespace

void add_affine_grid_operators(OperatorTable* t) {
  t->add("aten.affine_grid_generator", affine_grid);
  t->add("aten.affine_grid_generator_backward", affine_grid_backward);
}

}  // namespace clients
