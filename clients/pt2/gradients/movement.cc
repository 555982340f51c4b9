// Gradients of views and of reads by index: zeros with the gradient where the view reads.
#include <algorithm>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

NodeId gradient_of(Context& c) {
  return c.tensor(c.has("grad_output") ? "grad_output" : c.has("grad_in") ? "grad_in" : "grad");
}

void select_backward(Context& c) {
  NodeId g = gradient_of(c);
  Sizes shape = c.out_shape();
  int axis = c.axis("dim", static_cast<int>(shape.size()));
  Expr index = c.size("index");
  if (c.b.bounds().upper(index) < 0) index = index + shape[at(axis)];
  c.set(c.b.pad(c.b.unsqueeze(g, axis), axis, index, c.b.simplify(shape[at(axis)] - index - 1)));
}

void slice_backward(Context& c) {
  NodeId g = gradient_of(c);
  Sizes shape = c.out_shape();
  int axis = c.axis("dim", static_cast<int>(shape.size()), 0);
  int64_t step = c.integer("step", 1);
  if (step < 1) c.refuse("the step must be positive");
  Expr start = c.size("start", 0);
  if (c.b.bounds().upper(start) < 0) start = start + shape[at(axis)];
  start = c.b.simplify(common::min(common::max(start, 0), shape[at(axis)]));
  View view = common::view_identity(c.b.shape(g));
  Expr past = Expr::index(axis) - start;
  Expr place = common::floor_div(past, step);
  Expr count = c.b.size(g, axis);
  view.shape = shape;
  view.index[at(axis)] = place;
  view.valid.push_back({place, count});
  if (step > 1) view.valid.push_back({common::mod(past, step), 1});
  c.set(c.b.view(g, view));
}

// Adds the gradient up where `view` reads a tensor of the result's shape.
void add_back(Context& c, const std::vector<Expr>& index) {
  NodeId g = gradient_of(c);
  DType d = compute_dtype(c.b.dtype(g));
  std::vector<common::Coordinate> where;
  for (const Expr& one : index) where.push_back({-1, one});
  NodeId base = c.b.full(d, c.out_shape(), 0);
  c.result(c.b.scatter(ScatterMode::kAdd, base, c.b.cast(g, d), {}, where));
}

void diagonal_backward(Context& c) {
  int rank = static_cast<int>(c.out_shape().size());
  int64_t offset = c.integer("offset", 0);
  int first = c.axis("dim1", rank, 0);
  int second = c.axis("dim2", rank, 1);
  if (first == second) c.refuse("it takes two axes");
  std::vector<Expr> index;
  int next = 0;
  for (int k = 0; k < rank; ++k) {
    if (k != first && k != second) {
      index.push_back(Expr::index(next++));
      continue;
    }
    int64_t shift = k == first ? -offset : offset;
    index.push_back(Expr::index(rank - 2) + Expr(std::max<int64_t>(shift, 0)));
  }
  add_back(c, index);
}

void unfold_backward(Context& c) {
  int rank = static_cast<int>(c.out_shape().size());
  if (rank == 0) return c.set(c.b.reshape(gradient_of(c), {}));
  int axis = c.axis("dim", rank);
  std::vector<Expr> index;
  for (int k = 0; k < rank; ++k) index.push_back(Expr::index(k));
  index[at(axis)] = index[at(axis)] * Expr(c.integer("step")) + Expr::index(rank);
  add_back(c, index);
}

// Rows of the gradient added up by their index. Those of the padding row lead past the end, where a
// scatter drops them.
void embedding_backward(Context& c) {
  NodeId g = gradient_of(c);
  NodeId indices = c.tensor("indices");
  DType d = compute_dtype(c.b.dtype(g));
  Sizes shape = c.out_shape();
  int rank = c.b.rank(g);
  if (shape.size() != 2 || c.b.rank(indices) + 1 != rank) c.refuse("the gradient has another rank");
  if (c.flag("sparse", false)) c.refuse("sparse gradients are not supported; set sparse=False");
  DType whole = c.b.dtype(indices);
  NodeId padding = c.b.size_scalar(whole, c.size("padding_idx", -1));
  NodeId past = c.b.size_scalar(whole, shape[0]);
  NodeId place = c.b.select(c.b.binary(BinaryOp::kEqual, indices, padding), past, indices);
  g = c.b.cast(g, d);
  if (c.flag("scale_grad_by_freq", false)) {
    NodeId ones = c.b.full(d, c.b.shape(indices), 1);
    NodeId counts = c.b.scatter(ScatterMode::kAdd, c.b.full(d, {shape[0]}, 0), ones, {place},
                                {common::Coordinate{0, {}}});
    NodeId count = c.b.gather(counts, {place}, c.b.shape(indices), {common::Coordinate{0, {}}});
    g = div(c, g, c.b.unsqueeze(count, rank - 1));
  }
  NodeId row = c.b.expand(c.b.unsqueeze(place, rank - 1), c.b.shape(g));
  c.result(c.b.scatter(ScatterMode::kAdd, c.b.full(d, shape, 0), g, {row},
                       {common::Coordinate{0, {}}, common::Coordinate{-1, Expr::index(rank - 1)}}));
}

// The n-th true place gives its gradient to the n-th element of the source.
void masked_scatter_backward(Context& c) {
  NodeId g = gradient_of(c);
  NodeId mask = truth(c, c.tensor("mask"));
  if (!c.b.can_expand(mask, c.b.shape(g))) c.refuse("the mask does not fit");
  mask = flatten(c, c.b.expand(mask, c.b.shape(g)));
  g = flatten(c, g);
  Sizes shape = c.out_shape();
  Expr count = c.b.simplify(common::element_count(shape));
  NodeId order = add(c, c.b.scan(ScanOp::kSum, c.b.cast(mask, DType::kInt64), 0), -1.0);
  NodeId place = c.b.select(mask, order, c.b.size_scalar(DType::kInt64, count));
  NodeId base = c.b.full(c.b.dtype(g), {count}, 0);
  NodeId out = c.b.scatter(ScatterMode::kAssign, base, g, {place}, {common::Coordinate{0, {}}});
  c.set(c.b.reshape(out, shape));
}

}  // namespace

void add_movement_backward_operators(OperatorTable* t) {
  t->add("aten.select_backward", select_backward);
  t->add("aten.slice_backward", slice_backward);
  t->add("aten.diagonal_backward", diagonal_backward);
  t->add("aten.unfold_backward", unfold_backward);
  t->add("aten.masked_scatter_backward", masked_scatter_backward);
  t->add("aten.embedding_dense_backward", embedding_backward);
  t->add("aten.embedding_backward", embedding_backward);
}

}  // namespace clients
