// Norms of vectors and matrices, and condition numbers.
#include <algorithm>
#include <cmath>
#include <optional>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/linalg/jacobi.h"

namespace clients {
namespace {

// The order of a matrix norm: a number, the sum of singular values, or the root of all squares.
struct Order {
  enum class Kind { kFrobenius, kNuclear, kNumber };
  Kind kind = Kind::kFrobenius;
  double number = 0;
};

// The greatest, the least or the sum of singular values along two axes.
NodeId spectral_norm(Context& c, NodeId x, int rows, int columns, const Order& order) {
  std::vector<int> axes;
  for (int k = 0; k < c.b.rank(x); ++k) {
    if (k != rows && k != columns) axes.push_back(k);
  }
  axes.push_back(rows);
  axes.push_back(columns);
  NodeId values = singular_values(c, stack_of(c, c.b.permute(x, axes)));
  ReduceOp op = order.number > 0 ? ReduceOp::kMax : ReduceOp::kMin;
  if (order.kind == Order::Kind::kNuclear) op = ReduceOp::kSum;
  return c.b.reduce(op, values, {1});
}

// Sums along one of two axes, then the greatest or least of them; the Frobenius norm; or what
// singular values give.
void matrix_norm(Context& c, NodeId x, int rows, int columns, const Order& order) {
  bool keep = c.flag("keepdim", false);
  if (order.kind == Order::Kind::kFrobenius) {
    return c.result(norm(c, x, 2, {std::min(rows, columns), std::max(rows, columns)}, keep));
  }
  bool one = std::abs(order.number) == 1;
  if (order.kind == Order::Kind::kNuclear || std::abs(order.number) == 2) {
    return give(c, spectral_norm(c, x, rows, columns, order));
  }
  if (!one && !std::isinf(order.number)) c.refuse("there is no such matrix norm");
  NodeId size = c.b.unary(UnaryOp::kAbs, x);
  int summed = one ? rows : columns;
  int other = one ? columns : rows;
  NodeId sums = c.b.reduce(ReduceOp::kSum, size, {summed}, true);
  NodeId value =
      c.b.reduce(order.number > 0 ? ReduceOp::kMax : ReduceOp::kMin, sums, {other}, true);
  if (!keep) {
    value = c.b.squeeze(value, std::max(rows, columns));
    value = c.b.squeeze(value, std::min(rows, columns));
  }
  c.result(value);
}

NodeId operand_of(Context& c) { return c.b.cast(c.tensor("self"), compute_dtype(c.out_dtype())); }

// A vector norm, a matrix norm, or the norm of all elements, as axes and order decide.
void linalg_norm(Context& c, bool matrix) {
  NodeId x = operand_of(c);
  int rank = c.b.rank(x);
  std::optional<Order> order;
  if (c.is_text("ord")) {
    std::string text = c.text("ord", "fro");
    if (text != "fro" && text != "nuc") c.refuse("there is no such matrix norm");
    if (text == "nuc") order = Order{Order::Kind::kNuclear, 0};
    matrix = true;
  } else if (c.has("ord")) {
    order = Order{Order::Kind::kNumber, c.number("ord", 2)};
  }
  std::vector<int> axes = c.ordered_axes("dim", rank);
  if (matrix && axes.empty()) axes = {rank - 2, rank - 1};
  bool two = axes.size() == 2 || (axes.empty() && rank == 2);
  if (matrix || (two && order)) {
    if (axes.empty()) axes = {0, 1};
    if (rank < 2 || axes.size() != 2 || axes[0] == axes[1]) c.refuse("it takes matrices");
    return matrix_norm(c, x, axes[0], axes[1], order.value_or(Order()));
  }
  double p = order ? order->number : 2;
  bool keep = c.flag("keepdim", false);
  if (axes.empty() || !order) return c.result(norm(c, x, p, c.axes("dim", rank), keep));
  c.result(norm(c, x, p, axes, keep));
}

void nuclear_norm(Context& c) {
  NodeId x = operand_of(c);
  int rank = c.b.rank(x);
  std::vector<int> axes = c.ordered_axes("dim", rank);
  if (axes.empty()) axes = {rank - 2, rank - 1};
  if (rank < 2 || axes.size() != 2 || axes[0] == axes[1]) c.refuse("it takes matrices");
  matrix_norm(c, x, axes[0], axes[1], {Order::Kind::kNuclear, 0});
}

// The greatest singular value over the least, or the other way round.
void cond(Context& c) {
  double p = c.is_text("p") ? 0 : c.number("p", 2);
  if (std::abs(p) != 2) c.refuse("condition numbers of the 2-norm alone are supported");
  if (gives_empty(c, "self")) return;
  NodeId values = singular_values(c, stack(c, "self"));
  NodeId top = c.b.reduce(ReduceOp::kMax, values, {1});
  NodeId least = c.b.reduce(ReduceOp::kMin, values, {1});
  give(c, p > 0 ? div(c, top, least) : div(c, least, top));
}

}  // namespace

void add_norms_operators(OperatorTable* t) {
  t->add("aten.linalg_norm", [](Context& c) { linalg_norm(c, false); });
  t->add("aten.linalg_matrix_norm", [](Context& c) { linalg_norm(c, true); });
  t->add("aten.nuclear_norm", nuclear_norm);
  t->add("aten.linalg_cond", cond);
}

}  // namespace clients
