#include "common/ir/nest/loop_band.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/ir/expr/bounds.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"

namespace common {
namespace {

// Loops that take more to be seen through count nothing that a transformation makes.
constexpr int kStepsMax = 200;
constexpr int64_t kCountedMax = 1 << 20;

// A loop's index times an expression without indices.
struct Stride {
  size_t loop;
  Expr stride;
};

std::optional<Stride> stride_of(const Expr::Term& term) {
  Expr stride = term.coefficient;
  std::optional<size_t> loop;
  for (const Expr& factor : term.factors) {
    auto var = factor.as_var();
    if (var && var->kind == Var::Kind::kIndex) {
      if (loop) return std::nullopt;
      loop = at(var->id);
    } else if (factor.uses_index()) {
      return std::nullopt;
    } else {
      stride *= factor;
    }
  }
  if (!loop) return std::nullopt;
  return Stride{*loop, stride};
}

// What is divided or reduced somewhere in the expression, and by what; empty when nothing is.
struct Division {
  Expr dividend, divisor;
};

std::optional<Division> find_division(const Expr& e) {
  for (const Expr::Term& term : e.terms()) {
    for (const Expr& factor : term.factors) {
      if (factor.as_var() || !factor.uses_index()) continue;
      for (const Expr* inner : {&factor.left(), &factor.right()}) {
        if (auto found = find_division(*inner)) return found;
      }
      return Division{factor.left(), factor.right()};
    }
  }
  return std::nullopt;
}

// The expression as a sum of loops' indices times strides; empty when it is none.
std::optional<std::vector<Stride>> strides_of(const Expr& e) {
  std::vector<Stride> strides;
  if (e.sum_constant() != 0) return std::nullopt;
  for (const Expr::Term& term : e.terms()) {
    auto next = stride_of(term);
    if (!next) return std::nullopt;
    strides.push_back(*next);
  }
  return strides;
}

// c*x + y by n*c is x by n, where loop y counts to c: quotients and remainders of a loop that was
// split by what the divisor holds.
Expr peeled(const Expr& quotient, const std::vector<Expr>& extents) {
  auto strides = strides_of(quotient.left());
  for (const Stride& y : strides.value_or(std::vector<Stride>())) {
    if (!y.stride.is_constant(1) || strides->size() < 2) continue;
    const Expr& c = extents[y.loop];
    auto n = exact_div(quotient.right(), c);
    Expr inner = Expr::index(static_cast<int>(y.loop));
    auto x = exact_div(quotient.left() - inner, c);
    if (!n || !x) continue;
    return quotient.kind() == ExprKind::kFloorDiv ? floor_div(*x, *n) : mod(*x, *n) * c + inner;
  }
  return quotient;
}

// The expression with all its quotients and remainders peeled, inner ones first.
Expr with_peeled(const Expr& e, const Bounds& bounds, const std::vector<Expr>& extents) {
  if (e.is_constant() || e.as_var()) return e;
  Expr sum = e.sum_constant();
  for (const Expr::Term& term : e.terms()) {
    Expr product = term.coefficient;
    for (const Expr& factor : term.factors) {
      bool is_quotient = factor.kind() == ExprKind::kFloorDiv;
      if (!factor.uses_index() || (!is_quotient && factor.kind() != ExprKind::kMod)) {
        product *= factor;
        continue;
      }
      Expr left = with_peeled(factor.left(), bounds, extents);
      Expr whole = is_quotient ? floor_div(left, factor.right()) : mod(left, factor.right());
      whole = bounds.simplify(whole);
      bool divides = whole.kind() == ExprKind::kFloorDiv || whole.kind() == ExprKind::kMod;
      product *= divides ? peeled(whole, extents) : whole;
    }
    sum += product;
  }
  return bounds.simplify(sum);
}

// The band with simpler positions.
LoopBand simplified(LoopBand band, const std::vector<SymbolRange>& symbols) {
  Bounds bounds(symbols, band.extents);
  for (Expr& e : band.position) e = with_peeled(bounds.simplify(e), bounds, band.extents);
  return band;
}

// The band with loops a and b, which count a*extent(b) + b, as one.
std::optional<LoopBand> fuse_two(const LoopBand& band, size_t a, size_t b) {
  std::vector<size_t> order;
  for (size_t k = 0; k < band.extents.size(); ++k) {
    if (k == a) continue;
    if (k == b) order.push_back(a);
    order.push_back(k);
  }
  auto first = std::find(order.begin(), order.end(), a) - order.begin();
  return fuse_loops(*reorder_loops(band, order), static_cast<size_t>(first));
}

// An equal band, a step further on the way to one that divides nothing: of loops that are counted
// together two become one, a loop that is divided alone is split. Empty where there is no such
// step.
std::optional<LoopBand> without(const Division& division, const LoopBand& band) {
  auto found = strides_of(division.dividend);
  if (!found) return std::nullopt;
  const std::vector<Stride>& strides = *found;
  for (const Stride& a : strides) {
    for (const Stride& b : strides) {
      if (a.loop != b.loop && a.stride == b.stride * band.extents[b.loop]) {
        return fuse_two(band, a.loop, b.loop);
      }
    }
  }
  for (const Stride& moves : strides) {
    auto by = exact_div(division.divisor, moves.stride);
    if (by && !by->is_constant(1)) return split_loop(band, moves.loop, *by);
  }
  return std::nullopt;
}

// Whether the loops count through [0, size): one has stride 1, and every other the product of
// stride and extent of another. Marks them as used; no loop serves two axes.
bool covers_axis(std::vector<Stride> strides, const Expr& size, const std::vector<Expr>& extents,
                 std::vector<bool>& used) {
  Expr reached = 1;
  while (!strides.empty()) {
    auto next = std::find_if(strides.begin(), strides.end(),
                             [&](const Stride& s) { return s.stride == reached; });
    if (next == strides.end() || used[next->loop]) return false;
    used[next->loop] = true;
    reached *= extents[next->loop];
    strides.erase(next);
  }
  return reached == size;
}

// The same by counting, for few elements and sizes that are known.
bool visits_each_once(const LoopBand& band, const Shape& shape) {
  Expr steps = element_count(band.extents), elements = element_count(shape);
  if (steps != elements || !steps.is_constant() || steps.constant() > kCountedMax) return false;
  std::vector<int64_t> at(band.extents.size(), 0);
  std::vector<char> seen(static_cast<size_t>(std::max<int64_t>(steps.constant(), 0)), 0);
  for (int64_t step = 0; step < steps.constant(); ++step) {
    int64_t left = step, flat = 0;
    for (size_t k = at.size(); k-- > 0;) {
      at[k] = left % band.extents[k].constant();
      left /= band.extents[k].constant();
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t x = band.position[d].evaluate({}, at);
      if (x < 0 || x >= shape[d].constant()) return false;
      flat = flat * shape[d].constant() + x;
    }
    if (std::exchange(seen[static_cast<size_t>(flat)], 1) != 0) return false;
  }
  return true;
}

}  // namespace

LoopBand plain_band(const Shape& shape) {
  LoopBand band;
  for (const Expr& size : shape) {
    if (size.is_constant(1)) {
      band.position.push_back(0);
      continue;
    }
    band.position.push_back(Expr::index(static_cast<int>(band.extents.size())));
    band.extents.push_back(size);
  }
  return band;
}

Status verify_band(const LoopBand& given, const Shape& given_shape,
                   const std::vector<SymbolRange>& symbols) {
  if (given.position.size() != given_shape.size()) {
    return invalid_input(
        cat("loops walk ", given.position.size(), " axes of a shape of ", given_shape.size()));
  }
  LoopBand band = given;
  bool is_known = true;
  auto check = [&](const Expr& e, bool has_indices) {
    e.visit_vars([&](Var v) {
      size_t count =
          v.kind == Var::Kind::kIndex ? (has_indices ? band.extents.size() : 0) : symbols.size();
      is_known = is_known && v.id >= 0 && at(v.id) < count;
    });
  };
  for (const Expr& e : band.extents) check(e, false);
  for (const Expr& e : band.position) check(e, true);
  if (!is_known) return invalid_input("loops use an index or a symbol that is not there");
  // Symbols of one value are that value wherever they occur, as Bounds sees them.
  auto known = [&](const Expr& e) {
    return e.substitute([&](Var v) {
      bool is_fixed = v.kind == Var::Kind::kSymbol && at(v.id) < symbols.size() &&
                      symbols[at(v.id)].min == symbols[at(v.id)].max;
      return is_fixed ? Expr(symbols[at(v.id)].min) : Expr::var(v);
    });
  };
  Shape shape = given_shape;
  for (std::vector<Expr>* all : {&band.extents, &band.position, &shape}) {
    for (Expr& e : *all) e = known(e);
  }
  if (element_count(shape).is_constant(0)) {
    if (element_count(band.extents).is_constant(0)) return {};
    return invalid_input("loops visit something of what has no elements");
  }
  // Fused loops are split again, until every axis counts plain loops.
  band = simplified(std::move(band), symbols);
  int steps = 0;
  for (size_t d = 0; d < band.position.size();) {
    auto division = find_division(band.position[d]);
    if (!division) {
      ++d;
      continue;
    }
    auto next = without(*division, band);
    if (!next || ++steps > kStepsMax) {
      if (visits_each_once(band, shape)) return {};
      return invalid_input(cat("no axis is at ", given.position[d].text()));
    }
    band = simplified(std::move(*next), symbols);
    d = 0;
  }
  std::vector<bool> used(band.extents.size(), false);
  for (size_t d = 0; d < shape.size(); ++d) {
    auto strides = strides_of(band.position[d]);
    if (!strides || !covers_axis(*strides, shape[d], band.extents, used)) {
      return invalid_input(cat("loops do not cover axis ", d, " of size ", shape[d].text(), " by ",
                               given.position[d].text()));
    }
  }
  for (size_t k = 0; k < used.size(); ++k) {
    if (used[k] || band.extents[k].is_constant(1)) continue;
    return invalid_input("a loop moves along no axis");
  }
  return {};
}

std::optional<LoopBand> split_loop(const LoopBand& band, size_t loop, const Expr& divisor) {
  if (loop >= band.extents.size() || divisor.is_constant(0)) return std::nullopt;
  auto quotient = exact_div(band.extents[loop], divisor);
  if (!quotient) return std::nullopt;
  LoopBand result;
  std::vector<Expr> loops;
  for (size_t k = 0; k < band.extents.size(); ++k) {
    auto here = Expr::index(static_cast<int>(result.extents.size()));
    if (k != loop) {
      loops.push_back(here);
      result.extents.push_back(band.extents[k]);
      continue;
    }
    loops.push_back(here * divisor + Expr::index(static_cast<int>(result.extents.size()) + 1));
    result.extents.push_back(*quotient);
    result.extents.push_back(divisor);
  }
  result.position = with_indices(band.position, loops);
  return result;
}

std::optional<LoopBand> fuse_loops(const LoopBand& band, size_t loop) {
  // Positions of the fused loop divide by the inner one's extent.
  if (loop + 1 >= band.extents.size() || band.extents[loop + 1].is_constant(0)) return std::nullopt;
  LoopBand result;
  std::vector<Expr> loops;
  for (size_t k = 0; k < band.extents.size(); ++k) {
    auto here = Expr::index(static_cast<int>(result.extents.size()));
    if (k == loop) {
      const Expr& inner = band.extents[k + 1];
      loops.push_back(floor_div(here, inner));
      loops.push_back(mod(here, inner));
      result.extents.push_back(band.extents[k] * inner);
      ++k;
      continue;
    }
    loops.push_back(here);
    result.extents.push_back(band.extents[k]);
  }
  result.position = with_indices(band.position, loops);
  return result;
}

std::optional<LoopBand> reorder_loops(const LoopBand& band, const std::vector<size_t>& order) {
  if (order.size() != band.extents.size()) return std::nullopt;
  std::vector<bool> seen(order.size(), false);
  for (size_t k : order) {
    if (k >= order.size() || seen[k]) return std::nullopt;
    seen[k] = true;
  }
  LoopBand result;
  std::vector<Expr> loops(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    loops[order[k]] = Expr::index(static_cast<int>(k));
    result.extents.push_back(band.extents[order[k]]);
  }
  result.position = with_indices(band.position, loops);
  return result;
}

}  // namespace common
