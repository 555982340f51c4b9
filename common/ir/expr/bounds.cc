#include "common/ir/expr/bounds.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace common {
namespace {

constexpr int64_t kLow = INT64_MIN;
constexpr int64_t kHigh = INT64_MAX;
constexpr int kMaxDepth = 24;

Expr product_of(int64_t coefficient, const std::vector<Expr>& factors) {
  Expr product = coefficient;
  for (const Expr& factor : factors) product *= factor;
  return product;
}

int64_t saturate(__int128 value) {
  if (value <= kLow) return kLow;
  if (value >= kHigh) return kHigh;
  return static_cast<int64_t>(value);
}
bool infinite(int64_t v) { return v == kLow || v == kHigh; }

int64_t add(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (infinite(b)) return b;
  return saturate(static_cast<__int128>(a) + b);
}
int64_t mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? kHigh : kLow;
  return saturate(static_cast<__int128>(a) * b);
}
int64_t div_floor(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (infinite(b)) return a < 0 ? -1 : 0;
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

}  // namespace

Bounds::Interval Bounds::atom_interval(const Expr& atom, int depth) const {
  if (auto var = atom.as_var()) {
    auto id = static_cast<size_t>(var->id);
    if (var->kind == Var::Kind::kSymbol) {
      if (id < symbols_.size()) return {symbols_[id].min, symbols_[id].max};
      return {kLow, kHigh};
    }
    if (id < extents_.size() && depth < kMaxDepth) {
      int64_t extent = interval(extents_[id], depth + 1).hi;
      return {0, extent == kHigh ? kHigh : std::max<int64_t>(0, extent - 1)};
    }
    return {kLow, kHigh};
  }
  if (depth >= kMaxDepth) return {kLow, kHigh};
  Interval a = interval(atom.left(), depth + 1);
  Interval b = interval(atom.right(), depth + 1);
  switch (atom.kind()) {
    case ExprKind::kFloorDiv: {
      if (b.lo < 1) return {kLow, kHigh};
      int64_t lo = a.lo >= 0 ? div_floor(a.lo, b.hi) : div_floor(a.lo, b.lo);
      int64_t hi = a.hi >= 0 ? div_floor(a.hi, b.lo) : div_floor(a.hi, b.hi);
      return {lo, hi};
    }
    case ExprKind::kMod: {
      int64_t hi = b.hi == kHigh ? kHigh : b.hi - 1;
      if (a.lo >= 0) hi = std::min(hi, a.hi);
      return {0, hi};
    }
    case ExprKind::kMin:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    default:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
  }
}

Bounds::Interval Bounds::interval(const Expr& expr, int depth) const {
  if (expr.is_constant()) return {expr.constant(), expr.constant()};
  Interval sum{expr.sum_constant(), expr.sum_constant()};
  for (const auto& term : expr.terms()) {
    Interval product{term.coefficient, term.coefficient};
    for (const Expr& factor : term.factors) {
      Interval f = atom_interval(factor, depth);
      int64_t ends[] = {mul(product.lo, f.lo), mul(product.lo, f.hi), mul(product.hi, f.lo),
                        mul(product.hi, f.hi)};
      product = {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
    }
    sum.lo = sum.lo == kLow || product.lo == kLow ? kLow : add(sum.lo, product.lo);
    sum.hi = sum.hi == kHigh || product.hi == kHigh ? kHigh : add(sum.hi, product.hi);
  }
  return sum;
}

std::optional<Expr> Bounds::eliminate(const Expr& expr, bool for_lower, int depth) const {
  auto terms = expr.terms();
  for (const auto& term : terms) {
    for (const Expr& atom : term.factors) {
      auto var = atom.as_var();
      bool is_index =
          var && var->kind == Var::Kind::kIndex && static_cast<size_t>(var->id) < extents_.size();
      if (!is_index && atom.kind() != ExprKind::kMod) continue;
      // The slope: every term must hold the atom at most once and nowhere inside other atoms.
      Expr slope = 0;
      Expr rest = expr.sum_constant();
      bool linear = true;
      for (const auto& t : terms) {
        auto count = std::count(t.factors.begin(), t.factors.end(), atom);
        if (count > 1) linear = false;
        Expr product = t.coefficient;
        for (const Expr& f : t.factors) {
          if (f == atom) continue;
          product *= f;
          if (is_index && f.uses(*var)) linear = false;
        }
        (count ? slope : rest) += product;
      }
      if (!linear) continue;
      Interval s = interval(slope, depth + 1);
      bool take_low;
      if (s.lo >= 0) {
        take_low = for_lower;
      } else if (s.hi <= 0) {
        take_low = !for_lower;
      } else {
        continue;
      }
      if (take_low) return rest;
      Expr top = is_index ? extents_[static_cast<size_t>(var->id)] - 1 : atom.right() - 1;
      return rest + slope * top;
    }
  }
  return std::nullopt;
}

int64_t Bounds::lower(const Expr& expr) const {
  int64_t best = interval(expr, 0).lo;
  Expr current = expr;
  for (int step = 0; step < kMaxDepth; ++step) {
    auto next = eliminate(current, true, 0);
    if (!next) break;
    current = *next;
    best = std::max(best, interval(current, 0).lo);
  }
  return best;
}

int64_t Bounds::upper(const Expr& expr) const {
  int64_t negated = lower(-expr);
  return negated == kLow ? kHigh : -negated;
}

std::optional<Bounds::Steps> Bounds::steps_of(const Expr& expr, const Expr& divisor) const {
  if (expr.is_constant() || !divisor.is_constant() || divisor.constant() < 2) return std::nullopt;
  std::set<int64_t, std::greater<>> steps;
  for (const auto& term : expr.terms()) {
    if (term.coefficient != kLow) steps.insert(std::gcd(term.coefficient, divisor.constant()));
  }
  for (int64_t step : steps) {
    if (step == divisor.constant() || step == 1) continue;
    Steps result{step, floor_div(expr.sum_constant(), step), mod(expr.sum_constant(), step)};
    for (const auto& term : expr.terms()) {
      bool is_whole = term.coefficient % step == 0;
      (is_whole ? result.quotient : result.rest) +=
          product_of(is_whole ? term.coefficient / step : term.coefficient, term.factors);
    }
    if (lower(result.rest) >= 0 && upper(result.rest) < step) return result;
  }
  return std::nullopt;
}

// floor_div() splits off what divides; the rest may be provably in [0, divisor).
Expr Bounds::without_rests(const Expr& quotient) const {
  bool reduced = false;
  Expr sum = quotient.sum_constant();
  for (const auto& term : quotient.terms()) {
    if (term.factors.size() == 1 && term.factors[0].kind() == ExprKind::kFloorDiv) {
      const Expr& d = term.factors[0];
      if (provably_non_negative(d.left()) && provably_less(d.left(), d.right())) {
        reduced = true;
        continue;
      }
    }
    sum += product_of(term.coefficient, term.factors);
  }
  return reduced ? sum : quotient;
}

Expr Bounds::simplify(const Expr& expr) const {
  switch (expr.kind()) {
    case ExprKind::kConstant:
    case ExprKind::kVar: {
      if (expr.kind() == ExprKind::kVar) {
        Interval i = atom_interval(expr, 0);
        if (i.lo == i.hi) return i.lo;
      }
      return expr;
    }
    case ExprKind::kSum: {
      Expr sum = expr.sum_constant();
      for (const auto& term : expr.terms()) {
        Expr product = term.coefficient;
        for (const Expr& factor : term.factors) product *= simplify(factor);
        sum += product;
      }
      return sum;
    }
    default:
      break;
  }
  Expr a = simplify(expr.left());
  Expr b = simplify(expr.right());
  const bool divides = expr.kind() == ExprKind::kFloorDiv || expr.kind() == ExprKind::kMod;
  if (auto s = divides ? steps_of(a, b) : std::nullopt) {
    const Expr divisor = b.constant() / s->step;
    if (expr.kind() == ExprKind::kFloorDiv) return simplify(floor_div(s->quotient, divisor));
    return simplify(mod(s->quotient, divisor)) * s->step + s->rest;
  }
  switch (expr.kind()) {
    case ExprKind::kFloorDiv:
      return without_rests(floor_div(a, b));
    case ExprKind::kMod: {
      Expr result = mod(a, b);
      if (result.kind() == ExprKind::kMod && provably_non_negative(result.left()) &&
          provably_less(result.left(), result.right())) {
        return result.left();
      }
      return result;
    }
    case ExprKind::kMin: {
      if (lower(b - a) >= 0) return a;
      if (lower(a - b) >= 0) return b;
      return min(a, b);
    }
    default: {
      if (lower(b - a) >= 0) return b;
      if (lower(a - b) >= 0) return a;
      return max(a, b);
    }
  }
}

}  // namespace common
