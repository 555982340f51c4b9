#include "common/ir/expr/expr.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/hash64.h"

namespace common {

struct ExprNode {
  ExprKind kind;
  uint64_t hash = 0;
  Var var;                        // kVar
  Expr left, right;               // kFloorDiv, kMod, kMin, kMax
  int64_t constant = 0;           // kSum
  std::vector<Expr::Term> terms;  // kSum
};

namespace {

int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t floor_div_int(int64_t a, int64_t b) {
  LFARM_CHECK(b != 0, "division by zero in a size expression");
  if (b == -1) return wrap_mul(a, -1);  // INT64_MIN / -1 traps
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
// a - b * floor(a / b), which never overflows.
int64_t floor_mod_int(int64_t a, int64_t b) {
  if (b == -1) return 0;  // INT64_MIN % -1 traps
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

std::strong_ordering compare_factors(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

// ---- construction -------------------------------------------------------------------------

Expr Expr::var(Var var) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kVar;
  node->var = var;
  node->hash = mix64(static_cast<uint64_t>(var.id) * 2 + static_cast<uint64_t>(var.kind) + 77);
  return Expr(std::move(node));
}
Expr Expr::symbol(int id) { return var({Var::Kind::kSymbol, id}); }
Expr Expr::index(int id) { return var({Var::Kind::kIndex, id}); }

Expr make_binary(ExprKind kind, const Expr& a, const Expr& b) {
  auto node = std::make_shared<ExprNode>();
  node->kind = kind;
  node->left = a;
  node->right = b;
  node->hash = combine64(combine64(static_cast<uint64_t>(kind) + 1000, a.hash()), b.hash());
  return Expr(std::move(node));
}

// Sorts, merges equal products, drops zeros, joins c*D*(x//D) + c*(x%D), unwraps trivial sums.
Expr make_sum(int64_t constant, std::vector<Expr::Term> terms);

namespace {

void merge_equal_terms(std::vector<Expr::Term>& terms) {
  std::sort(terms.begin(), terms.end(), [](const Expr::Term& a, const Expr::Term& b) {
    return compare_factors(a.factors, b.factors) < 0;
  });
  size_t out = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (out != 0 && compare_factors(terms[out - 1].factors, terms[i].factors) == 0) {
      terms[out - 1].coefficient = wrap_add(terms[out - 1].coefficient, terms[i].coefficient);
    } else {
      if (out != i) terms[out] = std::move(terms[i]);
      ++out;
    }
    if (terms[out - 1].coefficient == 0) --out;
  }
  terms.resize(out);
}

Expr product_of(int64_t coefficient, const std::vector<Expr>& factors, size_t skip) {
  std::vector<Expr> rest;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (i != skip) rest.push_back(factors[i]);
  }
  if (rest.empty()) return coefficient;
  return make_sum(0, {{coefficient, std::move(rest)}});
}

bool is_monomial(const Expr& expr) {
  return expr.is_constant() || (expr.sum_constant() == 0 && expr.terms().size() == 1);
}

// Finds terms c*R*(x % D) and c*R*D*(x // D) and replaces the pair by c*R*x. Only a product of
// monomials is one term; others are not multiplied out to see, which would lead here again.
std::optional<Expr> join_div_mod(int64_t constant, const std::vector<Expr::Term>& terms) {
  for (size_t m = 0; m < terms.size(); ++m) {
    for (size_t f = 0; f < terms[m].factors.size(); ++f) {
      const Expr& atom = terms[m].factors[f];
      if (atom.kind() != ExprKind::kMod || !is_monomial(atom.right())) continue;
      Expr quotient = floor_div(atom.left(), atom.right());
      if (!is_monomial(quotient)) continue;
      Expr scale = product_of(terms[m].coefficient, terms[m].factors, f);
      Expr wanted = scale * atom.right() * quotient;
      if (wanted.is_constant()) continue;
      auto wanted_terms = wanted.terms();
      for (size_t d = 0; d < terms.size(); ++d) {
        if (d == m || terms[d].coefficient != wanted_terms[0].coefficient ||
            compare_factors(terms[d].factors, wanted_terms[0].factors) != 0) {
          continue;
        }
        std::vector<Expr::Term> rest;
        for (size_t i = 0; i < terms.size(); ++i) {
          if (i != m && i != d) rest.push_back(terms[i]);
        }
        return make_sum(constant, std::move(rest)) + scale * atom.left();
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Expr make_sum(int64_t constant, std::vector<Expr::Term> terms) {
  merge_equal_terms(terms);
  if (terms.size() > 1) {
    if (auto joined = join_div_mod(constant, terms)) return *joined;
  }
  if (terms.empty()) return constant;
  if (constant == 0 && terms.size() == 1 && terms[0].coefficient == 1 &&
      terms[0].factors.size() == 1) {
    return terms[0].factors[0];
  }
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kSum;
  node->constant = constant;
  uint64_t hash = mix64(static_cast<uint64_t>(constant));
  for (const auto& term : terms) {
    hash = combine64(hash, static_cast<uint64_t>(term.coefficient));
    for (const Expr& factor : term.factors) hash = combine64(hash, factor.hash());
  }
  node->hash = hash;
  node->terms = std::move(terms);
  return Expr(std::move(node));
}

// ---- inspection ---------------------------------------------------------------------------

ExprKind Expr::kind() const { return node_ ? node_->kind : ExprKind::kConstant; }

int64_t Expr::constant() const {
  LFARM_CHECK(node_ == nullptr, "not a constant: " + text());
  return constant_;
}

std::optional<Var> Expr::as_var() const {
  if (node_ && node_->kind == ExprKind::kVar) return node_->var;
  return std::nullopt;
}

uint64_t Expr::hash() const {
  return node_ ? node_->hash : mix64(static_cast<uint64_t>(constant_) ^ 0x5bd1e995);
}

const Expr& Expr::left() const {
  LFARM_CHECK(node_ && node_->kind >= ExprKind::kFloorDiv, "not a binary expression");
  return node_->left;
}
const Expr& Expr::right() const {
  LFARM_CHECK(node_ && node_->kind >= ExprKind::kFloorDiv, "not a binary expression");
  return node_->right;
}

int64_t Expr::sum_constant() const {
  if (!node_) return constant_;
  return node_->kind == ExprKind::kSum ? node_->constant : 0;
}

std::vector<Expr::Term> Expr::terms() const {
  if (!node_) return {};
  if (node_->kind == ExprKind::kSum) return node_->terms;
  return {{1, {*this}}};
}

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return a.node_ != nullptr || a.constant_ == b.constant_;
  if (!a.node_ || !b.node_ || a.node_->hash != b.node_->hash) return false;
  return (a <=> b) == 0;
}

std::strong_ordering operator<=>(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) {
    return a.node_ ? std::strong_ordering::equal : a.constant_ <=> b.constant_;
  }
  if (auto c = a.kind() <=> b.kind(); c != 0) return c;
  const ExprNode& x = *a.node_;
  const ExprNode& y = *b.node_;
  switch (x.kind) {
    case ExprKind::kVar:
      return x.var <=> y.var;
    case ExprKind::kSum: {
      if (auto c = x.terms.size() <=> y.terms.size(); c != 0) return c;
      for (size_t i = 0; i < x.terms.size(); ++i) {
        if (auto c = compare_factors(x.terms[i].factors, y.terms[i].factors); c != 0) return c;
        if (auto c = x.terms[i].coefficient <=> y.terms[i].coefficient; c != 0) return c;
      }
      return x.constant <=> y.constant;
    }
    default: {
      if (auto c = x.left <=> y.left; c != 0) return c;
      return x.right <=> y.right;
    }
  }
}

int64_t Expr::evaluate(std::span<const int64_t> symbols, std::span<const int64_t> indices) const {
  if (!node_) return constant_;
  const ExprNode& n = *node_;
  switch (n.kind) {
    case ExprKind::kVar: {
      auto values = n.var.kind == Var::Kind::kSymbol ? symbols : indices;
      LFARM_CHECK(static_cast<size_t>(n.var.id) < values.size(), "unbound variable " + text());
      return values[static_cast<size_t>(n.var.id)];
    }
    case ExprKind::kSum: {
      int64_t sum = n.constant;
      for (const Term& term : n.terms) {
        int64_t product = term.coefficient;
        for (const Expr& f : term.factors)
          product = wrap_mul(product, f.evaluate(symbols, indices));
        sum = wrap_add(sum, product);
      }
      return sum;
    }
    default:
      break;
  }
  int64_t a = n.left.evaluate(symbols, indices);
  int64_t b = n.right.evaluate(symbols, indices);
  switch (n.kind) {
    case ExprKind::kFloorDiv:
      return b == 0 ? 0 : floor_div_int(a, b);
    case ExprKind::kMod:
      return b == 0 ? 0 : floor_mod_int(a, b);
    case ExprKind::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

Expr Expr::substitute(const std::function<Expr(Var)>& replace) const {
  if (!node_) return *this;
  const ExprNode& n = *node_;
  switch (n.kind) {
    case ExprKind::kVar:
      return replace(n.var);
    case ExprKind::kSum: {
      Expr sum = n.constant;
      for (const Term& term : n.terms) {
        Expr product = term.coefficient;
        for (const Expr& f : term.factors) product = product * f.substitute(replace);
        sum = sum + product;
      }
      return sum;
    }
    case ExprKind::kFloorDiv:
      return floor_div(n.left.substitute(replace), n.right.substitute(replace));
    case ExprKind::kMod:
      return mod(n.left.substitute(replace), n.right.substitute(replace));
    case ExprKind::kMin:
      return min(n.left.substitute(replace), n.right.substitute(replace));
    default:
      return max(n.left.substitute(replace), n.right.substitute(replace));
  }
}

void Expr::visit_vars(const std::function<void(Var)>& visit) const {
  if (!node_) return;
  const ExprNode& n = *node_;
  if (n.kind == ExprKind::kVar) {
    visit(n.var);
  } else if (n.kind == ExprKind::kSum) {
    for (const Term& term : n.terms) {
      for (const Expr& factor : term.factors) factor.visit_vars(visit);
    }
  } else {
    n.left.visit_vars(visit);
    n.right.visit_vars(visit);
  }
}

bool Expr::uses(Var var) const {
  bool found = false;
  visit_vars([&](Var v) { found = found || v == var; });
  return found;
}
bool Expr::uses_index() const {
  bool found = false;
  visit_vars([&](Var v) { found = found || v.kind == Var::Kind::kIndex; });
  return found;
}

// ---- arithmetic ---------------------------------------------------------------------------

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return wrap_add(a.constant_, b.constant_);
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  auto terms = a.terms();
  for (auto& term : b.terms()) terms.push_back(std::move(term));
  return make_sum(wrap_add(a.sum_constant(), b.sum_constant()), std::move(terms));
}

Expr operator-(const Expr& a) { return Expr(-1) * a; }
Expr operator-(const Expr& a, const Expr& b) { return a + (-b); }

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return wrap_mul(a.constant_, b.constant_);
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  if (a.is_constant(0) || b.is_constant(0)) return 0;
  std::vector<Expr::Term> terms;
  auto left = a.terms();
  auto right = b.terms();
  int64_t ca = a.sum_constant();
  int64_t cb = b.sum_constant();
  for (const auto& x : left) {
    for (const auto& y : right) {
      Expr::Term term{wrap_mul(x.coefficient, y.coefficient), x.factors};
      term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
      std::sort(term.factors.begin(), term.factors.end());
      terms.push_back(std::move(term));
    }
    if (cb != 0) terms.push_back({wrap_mul(x.coefficient, cb), x.factors});
  }
  if (ca != 0) {
    for (const auto& y : right) terms.push_back({wrap_mul(y.coefficient, ca), y.factors});
  }
  return make_sum(wrap_mul(ca, cb), std::move(terms));
}

namespace {

// Divides one term by a single-term divisor; empty when it does not divide.
std::optional<Expr::Term> divide_term(const Expr::Term& term, const Expr::Term& divisor) {
  bool negates = divisor.coefficient == -1;  // INT64_MIN / -1 traps
  if (!negates && term.coefficient % divisor.coefficient != 0) return std::nullopt;
  Expr::Term quotient{
      negates ? wrap_mul(term.coefficient, -1) : term.coefficient / divisor.coefficient,
      term.factors};
  for (const Expr& factor : divisor.factors) {
    auto at = std::find(quotient.factors.begin(), quotient.factors.end(), factor);
    if (at == quotient.factors.end()) return std::nullopt;
    quotient.factors.erase(at);
  }
  return quotient;
}

// Splits a into quotient * b + remainder, taking every term that b divides.
// Only for divisors of one term (constants and monomials).
std::optional<std::pair<Expr, Expr>> split_by(const Expr& a, const Expr& b) {
  Expr::Term divisor{1, {}};
  if (b.is_constant()) {
    divisor.coefficient = b.constant();
  } else {
    auto terms = b.terms();
    if (terms.size() != 1 || b.sum_constant() != 0) return std::nullopt;
    divisor = terms[0];
  }
  if (divisor.coefficient == 0) return std::nullopt;
  Expr quotient = 0;
  Expr remainder = 0;
  for (const auto& term : a.terms()) {
    if (auto q = divide_term(term, divisor)) {
      quotient +=
          q->factors.empty() ? Expr(q->coefficient) : make_sum(0, {{q->coefficient, q->factors}});
    } else {
      remainder += make_sum(0, {term});
    }
  }
  int64_t c = a.sum_constant();
  if (b.is_constant()) {
    int64_t d = b.constant();
    quotient += floor_div_int(c, d);
    remainder += floor_mod_int(c, d);
  } else {
    remainder += c;
  }
  return std::make_pair(quotient, remainder);
}

// The term that comes first by degree and then by its factors, which is an order that products
// keep. The expression has a term.
Expr::Term leading_term(const Expr& e) {
  auto terms = e.terms();
  return *std::min_element(terms.begin(), terms.end(),
                           [](const Expr::Term& x, const Expr::Term& y) {
                             if (x.factors.size() != y.factors.size())
                               return x.factors.size() > y.factors.size();
                             return x.factors < y.factors;
                           });
}

constexpr int kQuotientTermsMax = 64;

// The exact quotient by a divisor of several terms: (s0*s1 - s0) / (s1 - 1) is s0.
std::optional<Expr> long_division(const Expr& a, const Expr& b) {
  Expr::Term divisor = leading_term(b);
  Expr quotient = 0, remainder = a;
  for (int terms = 0; !remainder.is_constant(); ++terms) {
    auto next = divide_term(leading_term(remainder), divisor);
    if (!next || terms == kQuotientTermsMax) return std::nullopt;
    Expr term = next->factors.empty() ? Expr(next->coefficient) : make_sum(0, {*next});
    quotient += term;
    remainder = remainder - term * b;
  }
  if (!remainder.is_constant(0)) return std::nullopt;
  return quotient;
}

}  // namespace

Expr floor_div(const Expr& a, const Expr& b) {
  if (b.is_constant(1)) return a;
  if (a == b) return 1;
  if (a.is_constant() && b.is_constant()) {
    return b.is_constant(0) ? Expr(0) : Expr(floor_div_int(a.constant(), b.constant()));
  }
  if (a.is_constant(0)) return 0;
  if (auto parts = split_by(a, b)) {
    auto& [quotient, remainder] = *parts;
    if (remainder.is_constant(0)) return quotient;
    if (remainder.is_constant() && b.is_constant()) return quotient;  // 0 <= remainder < b
    int64_t both = 0;
    if (remainder.kind() == ExprKind::kFloorDiv && b.is_constant() &&
        remainder.right().is_constant() &&
        !__builtin_mul_overflow(remainder.right().constant(), b.constant(), &both)) {
      return quotient + floor_div(remainder.left(), both);
    }
    return quotient + make_binary(ExprKind::kFloorDiv, remainder, b);
  }
  return make_binary(ExprKind::kFloorDiv, a, b);
}

Expr mod(const Expr& a, const Expr& b) {
  if (b.is_constant(1) || a == b || a.is_constant(0)) return 0;
  if (a.is_constant() && b.is_constant()) {
    return b.is_constant(0) ? Expr(0) : Expr(floor_mod_int(a.constant(), b.constant()));
  }
  if (auto parts = split_by(a, b)) {
    auto& [quotient, remainder] = *parts;
    if (remainder.is_constant() && (remainder.is_constant(0) || b.is_constant())) return remainder;
    if (remainder.kind() == ExprKind::kMod) {
      if (remainder.right() == b) return remainder;
      if (exact_div(remainder.right(), b)) return mod(remainder.left(), b);
    }
    return make_binary(ExprKind::kMod, remainder, b);
  }
  return make_binary(ExprKind::kMod, a, b);
}

Expr min(const Expr& a, const Expr& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::min(a.constant(), b.constant());
  if ((b - a).is_constant()) return (b - a).constant() >= 0 ? a : b;
  return a < b ? make_binary(ExprKind::kMin, a, b) : make_binary(ExprKind::kMin, b, a);
}

Expr max(const Expr& a, const Expr& b) {
  if (a == b) return a;
  if (a.is_constant() && b.is_constant()) return std::max(a.constant(), b.constant());
  if ((b - a).is_constant()) return (b - a).constant() >= 0 ? b : a;
  return a < b ? make_binary(ExprKind::kMax, a, b) : make_binary(ExprKind::kMax, b, a);
}

std::optional<Expr> exact_div(const Expr& a, const Expr& b) {
  if (a == b) return Expr(1);
  if (b.is_constant(0)) return std::nullopt;
  if (auto parts = split_by(a, b)) {
    if (parts->second.is_constant(0)) return parts->first;
    return std::nullopt;
  }
  return long_division(a, b);
}

}  // namespace common
