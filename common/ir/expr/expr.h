// Symbolic integer expressions over size symbols (s0, s1, ...) and loop indices (i0, i1, ...).
//
// An Expr is an immutable value in canonical form: a constant plus a sorted sum of coefficients
// times sorted products of atoms, where an atom is a variable, a floor division, a remainder, a
// minimum or a maximum. Equal expressions of polynomial form compare equal. Divisors are assumed
// to be positive. Arithmetic wraps as int64.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace common {

// A size symbol or a loop index.
struct Var {
  enum class Kind : uint8_t { kSymbol, kIndex };
  Kind kind = Kind::kSymbol;
  int32_t id = 0;
  friend auto operator<=>(const Var&, const Var&) = default;
};

enum class ExprKind : uint8_t { kConstant, kVar, kSum, kFloorDiv, kMod, kMin, kMax };
struct ExprNode;

class Expr {
 public:
  Expr() = default;                          // 0
  Expr(int64_t value) : constant_(value) {}  // NOLINT: implicit by design
  Expr(int value) : constant_(value) {}      // NOLINT: implicit by design
  static Expr symbol(int id);
  static Expr index(int id);
  static Expr var(Var var);

  ExprKind kind() const;
  bool is_constant() const { return node_ == nullptr; }
  bool is_constant(int64_t value) const { return node_ == nullptr && constant_ == value; }
  // The value of a constant expression.
  int64_t constant() const;
  std::optional<Var> as_var() const;
  uint64_t hash() const;

  // Structure, for code generators: operands of kFloorDiv, kMod, kMin, kMax.
  const Expr& left() const;
  const Expr& right() const;
  // A sum's constant part and terms; any other expression is a sum of one term.
  struct Term {
    int64_t coefficient = 1;
    std::vector<Expr> factors;  // atoms, sorted; empty never occurs
  };
  int64_t sum_constant() const;
  std::vector<Term> terms() const;

  // The value with symbols[k] for s<k> and indices[k] for i<k>.
  int64_t evaluate(std::span<const int64_t> symbols, std::span<const int64_t> indices = {}) const;
  // Replaces every variable by what `replace` returns for it and canonicalises.
  Expr substitute(const std::function<Expr(Var)>& replace) const;
  // Calls `visit` for every variable occurrence.
  void visit_vars(const std::function<void(Var)>& visit) const;
  bool uses(Var var) const;
  bool uses_index() const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a);
  friend bool operator==(const Expr& a, const Expr& b);
  friend std::strong_ordering operator<=>(const Expr& a, const Expr& b);
  Expr& operator+=(const Expr& other) { return *this = *this + other; }
  Expr& operator*=(const Expr& other) { return *this = *this * other; }

  // Such as "2*s0 + (i1 // 3) - 1"; parse_expr reads it back.
  std::string text() const;

 private:
  friend struct ExprNode;
  friend Expr make_binary(ExprKind kind, const Expr& a, const Expr& b);
  friend Expr make_sum(int64_t constant, std::vector<Term> terms);
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  int64_t constant_ = 0;
  std::shared_ptr<const ExprNode> node_;
};

// Rounds towards minus infinity. The divisor is positive.
Expr floor_div(const Expr& a, const Expr& b);
// a - floor_div(a, b) * b: never negative.
Expr mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
// The exact quotient of two polynomials when `b` divides `a` without remainder.
std::optional<Expr> exact_div(const Expr& a, const Expr& b);

Result<Expr> parse_expr(std::string_view text);

using Shape = std::vector<Expr>;
// The product of the sizes; 1 for a scalar.
Expr element_count(const Shape& shape);
// "[2, s0, 64]"
std::string shape_text(const Shape& shape);

}  // namespace common

template <>
struct std::hash<common::Expr> {
  size_t operator()(const common::Expr& expr) const noexcept { return expr.hash(); }
};
