#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/fuzz/graphs/graph_grower.h"

namespace fuzz {

using common::Expr;
using common::View;

namespace {

size_t at(int axis) { return static_cast<size_t>(axis); }

}  // namespace

void GraphGrower::grow_view() {
  NodeId x = some();
  if (b_.rank(x) == 0) return grow_expand(x);
  switch (below(12)) {
    case 0:
      return grow_permute(x);
    case 1:
    case 2:
      return grow_reshape(x);
    case 3:
      return grow_expand(x);
    case 4:
    case 5:
      return grow_slice(x);
    case 6:
      return grow_pad(x);
    case 7:
      return grow_concat(x);
    case 8:
      return grow_unfold(x);
    case 9:
      return grow_diagonal(x);
    case 10:
      return grow_rotation(x);
    default:
      return grow_any_view(x);
  }
}

void GraphGrower::grow_permute(NodeId x) {
  std::vector<int> order(at(b_.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  for (size_t k = order.size(); k-- > 1;) std::swap(order[k], order[random_.below(k + 1)]);
  keep(tame_.view(x, common::view_permute(b_.shape(x), order)));
}

void GraphGrower::grow_reshape(NodeId x) {
  const Shape& from = b_.shape(x);
  Shape to;
  for (size_t k = 0; k < from.size(); ++k) {
    if (!to.empty() && chance(0.4)) {  // merged with the axis before
      to.back() = to.back() * from[k];
    } else {
      to.push_back(from[k]);
    }
    if (to.size() < 5 && chance(0.1)) to.push_back(1);
  }
  for (size_t k = 0; k < to.size() && to.size() < 5; ++k) {
    if (!to[k].is_constant() || to[k].constant() < 4 || !chance(0.6)) continue;
    for (int64_t factor : {4, 3, 2}) {
      if (to[k].constant() % factor != 0) continue;
      to[k] = to[k].constant() / factor;
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(k), Expr(factor));
      break;
    }
  }
  if (chance(0.2)) to = {common::element_count(from)};
  if (!fits(to)) return;
  keep(tame_.view(x, common::view_reshape(from, to, b_.bounds())));
}

void GraphGrower::grow_expand(NodeId x) {
  Shape shape = b_.shape(x);
  for (Expr& size : shape) {
    if (size.is_constant(1) && chance(0.6)) size = some_size();
  }
  for (int lead = below(3); lead > 0; --lead) shape.insert(shape.begin(), some_size());
  if (!fits(shape)) return;
  keep(tame_.view(x, *common::view_expand(b_.shape(x), shape)));
}

void GraphGrower::grow_slice(NodeId x) {
  int axis = below(b_.rank(x));
  const Expr size = b_.shape(x)[at(axis)];
  int64_t least = std::max<int64_t>(b_.bounds().lower(size), 0);
  auto skipped =
      static_cast<int64_t>(random_.below(static_cast<uint64_t>(std::min<int64_t>(least, 4)) + 1));
  auto step = pick<int64_t>({1, 1, 2, 3});
  Expr length = common::floor_div(size - skipped + (step - 1), step);
  if (chance(least > skipped ? 0.3 : 0.05))
    length = std::min<int64_t>((least - skipped + step - 1) / step, 3);
  bool backwards = chance(0.4);
  Expr start = backwards ? size - 1 - skipped : Expr(skipped);
  keep(tame_.view(x,
                  common::view_slice(b_.shape(x), axis, start, length, backwards ? -step : step)));
}

void GraphGrower::grow_pad(NodeId x) {
  int axis = below(b_.rank(x));
  Shape shape = b_.shape(x);
  int64_t least = std::max<int64_t>(b_.bounds().lower(shape[at(axis)]), 0);
  int64_t before = below(4), after = below(4);
  if (least >= 2 && chance(0.3)) before = -1;
  if (least >= 2 && chance(0.3)) after = -1;
  double fill = pick({0.0, 1.0, 0.5, -2.0, -1.5});
  if (common::is_float(b_.dtype(x)) && chance(0.1)) fill = -std::numeric_limits<double>::infinity();
  shape[at(axis)] += before + after;
  if (!fits(shape)) return;
  keep(tame_.view(x, common::view_pad(b_.shape(x), axis, before, after, fill)));
}

void GraphGrower::grow_concat(NodeId x) {
  int axis = below(b_.rank(x));
  std::vector<NodeId> parts{x};
  Numbers n = tame_.numbers(x);
  Expr total = b_.shape(x)[at(axis)];
  for (int more = 1 + below(2); more > 0; --more) {
    Shape wanted = b_.shape(x);
    NodeId other = some();
    if (b_.rank(other) == b_.rank(x)) wanted[at(axis)] = b_.shape(other)[at(axis)];
    auto part = shaped(other, b_.dtype(x), wanted);
    if (!part) part = x;
    parts.push_back(*part);
    total += b_.shape(*part)[at(axis)];
    const Numbers& m = tame_.numbers(*part);
    n = {std::max(n.bound, m.bound), std::max(n.error, m.error), std::max(n.grain, m.grain),
         n.special || m.special};
  }
  Shape shape = b_.shape(x);
  shape[at(axis)] = total;
  if (!fits(shape)) return;
  keep(tame_.declare(b_.concat(parts, axis), n));
}

void GraphGrower::grow_unfold(NodeId x) {
  int axis = below(b_.rank(x));
  const Expr size = b_.shape(x)[at(axis)];
  int64_t least = b_.bounds().lower(size);
  if (least < 1) return;
  int64_t window = 1 + below(static_cast<int>(std::min<int64_t>(least, 4)));
  auto step = pick<int64_t>({1, 2, 3});
  Expr count = common::floor_div(size - window, step) + 1;
  View view = common::view_unfold(b_.shape(x), axis, count, window, step);
  if (fits(view.shape)) keep(tame_.view(x, view));
}

void GraphGrower::grow_diagonal(NodeId x) {
  const Shape& shape = b_.shape(x);
  for (int a = 0; a < b_.rank(x); ++a) {
    for (int c = a + 1; c < b_.rank(x); ++c) {
      if (shape[at(a)] != shape[at(c)]) continue;
      View view;
      for (int k = 0; k < b_.rank(x); ++k) {
        if (k == c) {
          view.index.push_back(Expr::index(a));
          continue;
        }
        view.index.push_back(Expr::index(static_cast<int>(view.shape.size())));
        view.shape.push_back(shape[at(k)]);
      }
      return keep(tame_.view(x, view));
    }
  }
}

void GraphGrower::grow_rotation(NodeId x) {
  int axis = below(b_.rank(x));
  const Expr size = b_.shape(x)[at(axis)];
  if (b_.bounds().lower(size) < 1) return;
  View view = common::view_identity(b_.shape(x));
  view.index[at(axis)] = common::mod(Expr::index(axis) + pick<int64_t>({1, 2, 5}), size);
  keep(tame_.view(x, view));
}

common::Expr GraphGrower::some_position(const Shape& over) {
  Expr e = pick<int64_t>({0, 0, 1, -1, 2});
  for (int terms = over.empty() ? 0 : 1 + below(2); terms > 0; --terms) {
    Expr index = Expr::index(below(static_cast<int>(over.size())));
    if (chance(0.15)) index = common::floor_div(index, pick<int64_t>({2, 3}));
    if (chance(0.15)) index = common::mod(index, pick<int64_t>({2, 3}));
    e += index * pick<int64_t>({1, 1, 1, 2, 3, -1});
  }
  if (chance(0.1)) e = common::floor_div(e, pick<int64_t>({2, 3}));
  if (chance(0.1) && !b_.symbols().empty()) e += Expr::symbol(0) - 1;
  return e;
}

// Any positions at all, read where they are inside.
void GraphGrower::grow_any_view(NodeId x) {
  View view;
  view.shape = some_shape(4);
  for (const Expr& size : b_.shape(x)) {
    view.index.push_back(some_position(view.shape));
    view.valid.push_back({view.index.back(), size});
  }
  if (chance(0.3)) view.valid.push_back({some_position(view.shape), some_size()});
  view.fill = pick({0.0, 0.0, 1.0, -3.0});
  keep(tame_.view(x, view));
}

}  // namespace fuzz
