// What is known about the ranges of variables, and simplification that uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/ir/expr/expr.h"

namespace common {

// The inclusive range of a size symbol.
struct SymbolRange {
  int64_t min = 0;
  int64_t max = INT64_MAX;
  friend bool operator==(const SymbolRange&, const SymbolRange&) = default;
};

// Symbols have constant ranges; index i<k> runs over [0, extents[k] - 1].
class Bounds {
 public:
  Bounds() = default;
  Bounds(std::vector<SymbolRange> symbols, std::vector<Expr> extents)
      : symbols_(std::move(symbols)), extents_(std::move(extents)) {}

  // The greatest (least) known integer that bounds the expression from below (above).
  // INT64_MIN (INT64_MAX) when nothing is known.
  int64_t lower(const Expr& expr) const;
  int64_t upper(const Expr& expr) const;
  bool provably_less(const Expr& a, const Expr& b) const { return lower(b - a) > 0; }
  bool provably_non_negative(const Expr& a) const { return lower(a) >= 0; }

  // An equal expression with divisions, remainders, minima and maxima removed where the ranges
  // decide them. Valid only for variable values inside the bounds.
  Expr simplify(const Expr& expr) const;

 private:
  struct Interval {
    int64_t lo, hi;
  };
  Interval interval(const Expr& expr, int depth) const;
  Interval atom_interval(const Expr& atom, int depth) const;
  // Replaces one atom that the expression depends on monotonically by the end of its range.
  std::optional<Expr> eliminate(const Expr& expr, bool for_lower, int depth) const;
  // The quotient without parts that ranges show to be 0.
  Expr without_rests(const Expr& quotient) const;
  // step * quotient + rest, with 0 <= rest < step.
  struct Steps {
    int64_t step = 1;
    Expr quotient, rest;
  };
  // The expression in steps that divide the divisor and are less; none where it is constant, or
  // where ranges do not say how.
  std::optional<Steps> steps_of(const Expr& expr, const Expr& divisor) const;
  std::vector<SymbolRange> symbols_;
  std::vector<Expr> extents_;
};

}  // namespace common
