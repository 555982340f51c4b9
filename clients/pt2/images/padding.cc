// Padding with a number or with what the tensor holds, and the gradients of the latter.
#include <string>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;

// The element that an axis of n elements repeats at a position outside of it.
Expr repeated(const std::string& mode, const Expr& position, const Expr& n) {
  if (mode == "circular") return common::mod(position, n);
  if (mode == "replicate") return common::min(common::max(position, 0), n - 1);
  Expr low = common::max(position, -position);
  return common::min(low, Expr(2) * (n - 1) - low);
}

// The pad list starts at the last axis: (before, after) for each.
NodeId pad(Context& c, NodeId x, const std::vector<Expr>& amounts, const std::string& mode) {
  double value = c.number("value", 0);
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    int axis = c.b.rank(x) - 1 - static_cast<int>(i / 2);
    if (axis < 0) c.refuse("more paddings than axes");
    Expr before = amounts[i];
    Expr after = amounts[i + 1];
    if (before.is_constant(0) && after.is_constant(0)) continue;
    if (mode == "circular") {
      // What is cut off is not there to be repeated.
      Expr cut = c.b.simplify(common::max(-before, 0));
      Expr rest = c.b.simplify(c.b.size(x, axis) - cut - common::max(-after, 0));
      x = c.b.slice(x, axis, cut, rest);
      before = c.b.simplify(common::max(before, 0));
      after = c.b.simplify(common::max(after, 0));
    }
    Expr size = c.b.size(x, axis);
    Expr length = size + before + after;
    if (mode == "constant") {
      x = c.b.pad(x, axis, before, after, value);
      continue;
    }
    View view = common::view_identity(c.b.shape(x));
    view.shape[at(axis)] = length;
    view.index[at(axis)] = repeated(mode, Expr::index(axis) - before, size);
    x = c.b.view(x, view);
  }
  return x;
}

void pad_with(Context& c, const std::string& mode) {
  if (mode != "constant" && mode != "reflect" && mode != "replicate" && mode != "circular") {
    c.refuse("unknown padding mode");
  }
  c.set(pad(c, c.tensor("self"), c.sizes(c.has("pad") ? "pad" : "padding"), mode));
}

// Every element adds up the gradients of the places that repeat it, one axis after the other.
void pad_backward(Context& c, const std::string& mode) {
  NodeId x = c.tensor("self");
  NodeId g = c.tensor("grad_output");
  if (c.b.rank(g) != c.b.rank(x)) c.refuse("the gradient has another rank");
  g = c.b.cast(g, compute_dtype(c.b.dtype(x)));
  std::vector<Expr> amounts = c.sizes("padding");
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    int axis = c.b.rank(g) - 1 - static_cast<int>(i / 2);
    if (axis < 0) c.refuse("more paddings than axes");
    Expr size = c.b.size(x, axis);
    Sizes shape = c.b.shape(g);
    shape[at(axis)] = size;
    std::vector<common::Coordinate> where;
    for (int k = 0; k < c.b.rank(g); ++k) where.push_back({-1, Expr::index(k)});
    where[at(axis)].expr = repeated(mode, Expr::index(axis) - amounts[i], size);
    g = c.b.scatter(ScatterMode::kAdd, c.b.full(c.b.dtype(g), shape, 0), g, {}, where);
  }
  c.result(g);
}

}  // namespace

void add_padding_operators(OperatorTable* t) {
  t->add("aten.constant_pad_nd", [](Context& c) { pad_with(c, "constant"); });
  t->add("aten.pad", [](Context& c) { pad_with(c, c.text("mode", "constant")); });
  for (const char* name :
       {"aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d"}) {
    t->add(name, [](Context& c) { pad_with(c, "reflect"); });
  }
  for (const char* name :
       {"aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d"}) {
    t->add(name, [](Context& c) { pad_with(c, "replicate"); });
  }
  for (const char* name : {"aten.reflection_pad1d_backward", "aten.reflection_pad2d_backward",
                           "aten.reflection_pad3d_backward"}) {
    t->add(name, [](Context& c) { pad_backward(c, "reflect"); });
  }
  for (const char* name : {"aten.replication_pad1d_backward", "aten.replication_pad2d_backward",
                           "aten.replication_pad3d_backward"}) {
    t->add(name, [](Context& c) { pad_backward(c, "replicate"); });
  }
}

}  // namespace clients
