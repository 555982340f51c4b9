#include "coordinator/rules/matching/parts.h"

#include <cmath>
#include <functional>

#include "common/base/contains.h"
#include "common/ir/expr/with_indices.h"

namespace coordinator {

using common::attr;
using common::BinaryAttr;
using common::BinaryOp;
using common::Expr;
using common::Op;
using common::ReduceAttr;
using common::ReduceOp;
using common::View;
using common::ViewAttr;

bool restores(const View& view, const std::vector<int>& axes) {
  if (!view.valid.empty()) return false;
  size_t kept = 0;
  for (int axis = 0; axis < static_cast<int>(view.shape.size()); ++axis) {
    bool reduced = common::contains(axes, axis);
    if (reduced) continue;
    if (kept >= view.index.size()) return false;
    bool single = view.shape[static_cast<size_t>(axis)].is_constant(1);
    if (!single && view.index[kept] != Expr::index(axis)) return false;
    ++kept;
  }
  return kept == view.index.size();
}

bool is_broadcast(const Rewriter& r, const View& view, const common::Shape& input) {
  if (!view.valid.empty()) return false;
  common::Bounds bounds(r.symbols(), {});
  return bounds.lower(common::element_count(view.shape) - common::element_count(input)) > 0;
}

std::optional<Expr> index_value(const Rewriter& r, ClassId cls) {
  std::function<std::optional<Expr>(ClassId, int)> value_of =
      [&](ClassId at, int depth) -> std::optional<Expr> {
    if (!common::is_integer(r.dtype(at)) || depth == 4) return std::nullopt;
    if (auto value = r.uniform_value(at)) return Expr(static_cast<int64_t>(*value));
    if (r.find(at, Op::kIota)) return Expr::index(0);
    for (const Rewriter::Found& found : r.find_all(at, Op::kView)) {
      const View& view = attr<ViewAttr>(*found.node).view;
      auto inner = view.valid.empty() ? value_of(found.operands[0], depth + 1) : std::nullopt;
      if (!inner) continue;
      return common::with_indices(*inner, view.index);
    }
    if (auto cast = r.find(at, Op::kCast)) {
      auto inner = value_of(cast->operands[0], depth + 1);
      common::Bounds bounds = common::loop_bounds(r.shape(at), r.symbols());
      bool fits = inner && holds(r.dtype(at), {bounds.lower(*inner), bounds.upper(*inner)});
      return fits ? inner : std::nullopt;
    }
    auto quotient = r.find_binary(at, BinaryOp::kFloorDiv);
    auto divisor = quotient ? r.uniform_value(quotient->operands[1]) : std::nullopt;
    if (!divisor || *divisor < 1) return std::nullopt;
    auto inner = value_of(quotient->operands[0], depth + 1);
    if (!inner) return std::nullopt;
    common::Bounds bounds = common::loop_bounds(r.shape(at), r.symbols());
    return bounds.simplify(common::floor_div(*inner, Expr(static_cast<int64_t>(*divisor))));
  };
  return value_of(cls, 0);
}

std::optional<LessOfPositions> less_of_positions(const Rewriter& r, ClassId cls) {
  auto held = [&](ClassId at) -> std::optional<LessOfPositions> {
    auto less = r.find_binary(at, BinaryOp::kLess);
    auto x = less ? index_value(r, less->operands[0]) : std::nullopt;
    auto y = x ? index_value(r, less->operands[1]) : std::nullopt;
    if (!y) return std::nullopt;
    return LessOfPositions{*std::move(x), *std::move(y)};
  };
  if (auto own = held(cls)) return own;
  auto way = r.find(cls, Op::kView);
  if (!way) return std::nullopt;
  const View& view = attr<ViewAttr>(*way->node).view;
  auto seen = view.valid.empty() ? held(way->operands[0]) : std::nullopt;
  if (!seen) return std::nullopt;
  return LessOfPositions{common::with_indices(seen->x, view.index),
                         common::with_indices(seen->y, view.index)};
}

bool Descent::through_views() {
  while (auto found = r_.find(cls_, Op::kView)) {
    auto composed = common::view_compose(view_, attr<ViewAttr>(*found->node).view, r_.symbols());
    if (!composed || !composed->valid.empty()) return false;
    view_ = *composed;
    cls_ = found->operands[0];
    if (++steps_ > 16) return false;
  }
  return true;
}

bool Descent::through_unary(common::UnaryOp op) {
  if (!through_views()) return false;
  auto found = r_.find_unary(cls_, op);
  if (!found) return false;
  cls_ = found->operands[0];
  return true;
}

bool Descent::through_cast() {
  auto found = r_.find(cls_, Op::kCast);
  if (!found) return false;
  cls_ = found->operands[0];
  return true;
}

std::optional<double> Descent::through_constant(BinaryOp op, bool right_only) {
  if (!through_views()) return std::nullopt;
  auto found = r_.find_binary(cls_, op);
  if (!found) return std::nullopt;
  if (auto value = r_.uniform_value(found->operands[1])) {
    cls_ = found->operands[0];
    return value;
  }
  auto value = r_.uniform_value(found->operands[0]);
  if (!value || right_only) return std::nullopt;
  cls_ = found->operands[1];
  return value;
}

std::optional<RowSum> row_sum_of(Rewriter& r, Descent descent) {
  if (!descent.through_views()) return std::nullopt;
  auto sum = r.find(descent.cls(), Op::kReduce);
  if (!sum || attr<ReduceAttr>(*sum->node).op != ReduceOp::kSum) return std::nullopt;
  const auto& axes = attr<ReduceAttr>(*sum->node).axes;
  ClassId x = sum->operands[0];
  if (descent.view().shape != r.shape(x) || !restores(descent.view(), axes)) return std::nullopt;
  return RowSum{x, axes};
}

std::optional<Mean> mean_of(Rewriter& r, Descent descent) {
  double factor = 1;
  if (auto divisor = descent.through_constant(BinaryOp::kDiv, true)) {
    factor = 1 / *divisor;
  } else if (auto scale = descent.through_constant(BinaryOp::kMul, false)) {
    factor = *scale;
  } else {
    return std::nullopt;
  }
  auto sum = row_sum_of(r, descent);
  if (!sum) return std::nullopt;
  // Axes of one element may be summed or not: those behind the first that is summed are.
  const common::Shape& shape = r.shape(sum->of);
  Expr count = 1;
  std::vector<int> order, averaged;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    const Expr& size = shape[static_cast<size_t>(axis)];
    bool is_one = size.is_constant(1);
    bool is_summed = common::contains(sum->axes, axis);
    if (is_one ? averaged.empty() : !is_summed) {
      order.push_back(axis);
      continue;
    }
    averaged.push_back(axis);
    count *= size;
  }
  if (averaged.empty()) return std::nullopt;
  order.insert(order.end(), averaged.begin(), averaged.end());
  if (!count.is_constant() || count.is_constant(0)) return std::nullopt;
  double wanted = 1 / static_cast<double>(count.constant());
  if (std::abs(factor - wanted) > 1e-6 * wanted) return std::nullopt;
  return Mean{sum->of, static_cast<int>(averaged.size()), std::move(order)};
}

}  // namespace coordinator
