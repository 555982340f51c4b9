#include "clients/pt2/aten/sympy_parser.h"

#include <charconv>
#include <string>
#include <vector>

#include "clients/pt2/archive/limits.h"
#include "common/base/cat.h"
#include "common/ir/expr/expr_size.h"

namespace clients {
namespace {

using common::cat;
using common::Expr;
using common::Result;

// Sympy folds halves into products, as in s0*(1/2): a value is a quotient until the end.
struct Quotient {
  Expr above = 0;
  Expr below = 1;
};

class Parser {
 public:
  Parser(std::string_view text, const SymbolLookup& lookup) : text_(text), lookup_(lookup) {}

  Result<Expr> run() {
    if (text_.size() > kMaxSympyBytes)
      return common::invalid_input("a size expression is too long");
    auto parsed = sum();
    Expr size = parsed.ok() ? whole(*parsed) : Expr(0);
    if (is_too_large_) return unknown("larger numbers or more terms than any real model's");
    if (!parsed.ok()) return parsed.error();
    if (at_ != text_.size()) return malformed();
    return size;
  }

 private:
  // As much as a message needs.
  std::string_view shown() const { return text_.substr(0, 200); }
  common::Error malformed() const {
    return common::corrupt(cat("size expression '", shown(), "' is malformed at character ", at_));
  }
  common::Error unknown(std::string_view what) const {
    return common::unsupported(cat("size expression '", shown(), "' uses ", what,
                                   ", which lfarm does not know; export the model with static "
                                   "sizes or without data-dependent shapes"));
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    skip_spaces();
    return true;
  }

  // Divisors must be positive; the expressions' own arithmetic takes that for granted.
  common::Error zero() const {
    return common::corrupt(cat("size expression '", shown(), "' divides by zero or less"));
  }

  static bool is_divisor(const Expr& expr) { return !expr.is_constant() || expr.constant() >= 1; }

  // The exact quotient where there is one, as torch's own divisions without remainder are.
  Expr whole(const Quotient& q) {
    if (q.below.is_constant(1)) return q.above;
    if (is_too_large_ || !fits(q.above, q.below)) return 0;
    // Divisors are positive. The least number, which has no positive counterpart, is too large.
    if (q.below.is_constant() && q.below.constant() < 0) return whole({-q.above, -q.below});
    if (auto exact = common::exact_div(q.above, q.below)) return *exact;
    return common::floor_div(q.above, q.below);
  }

  // A value that has become too large is 0 from then on, and the whole text is refused.
  bool fits(const Expr& a, const Expr& b) {
    bool small = common::pair_is_small(a, b);
    is_too_large_ |= !small;
    return small;
  }
  Expr product_of(const Expr& a, const Expr& b) {
    is_too_large_ |= !common::product_is_small(a, b) || !common::product_fits(a, b);
    return is_too_large_ ? Expr(0) : a * b;
  }
  Quotient times(const Quotient& a, const Quotient& b) {
    Quotient out{product_of(a.above, b.above), product_of(a.below, b.below)};
    if (out.below.is_constant(1)) return out;
    if (auto exact = common::exact_div(out.above, out.below)) return {*exact, 1};
    return out;
  }
  Expr sum_of(const Expr& a, const Expr& b) {
    is_too_large_ |= !common::pair_is_small(a, b) || !common::sum_fits(a, b);
    return is_too_large_ ? Expr(0) : a + b;
  }
  Quotient plus(const Quotient& a, const Quotient& b) {
    if (a.below == b.below) return {sum_of(a.above, b.above), a.below};
    return {sum_of(product_of(a.above, b.below), product_of(b.above, a.below)),
            product_of(a.below, b.below)};
  }
  static Quotient negative(const Quotient& a) { return {-a.above, a.below}; }

  Result<Quotient> power(const Quotient& base, const Quotient& exponent) {
    Expr e = whole(exponent);
    if (!e.is_constant()) return unknown("a symbolic power");
    int64_t n = e.constant();
    if (n > kMaxSympyPower || n < -kMaxSympyPower) return unknown("a large power");
    Quotient out{1, 1};
    if (n < 0 && base.above.is_constant(0)) return zero();
    Quotient factor = n < 0 ? Quotient{base.below, base.above} : base;
    for (int64_t i = 0; i < (n < 0 ? -n : n); ++i) out = times(out, factor);
    return out;
  }

  Result<Quotient> sum() {
    if (++depth_ > kMaxSympyDepth) return malformed();
    LFARM_ASSIGN_OR_RETURN(Quotient left, product());
    for (;;) {
      bool add = take("+");
      if (!add && !take("-")) break;
      LFARM_ASSIGN_OR_RETURN(Quotient right, product());
      left = plus(left, add ? right : negative(right));
    }
    --depth_;
    return left;
  }

  Result<Quotient> product() {
    LFARM_ASSIGN_OR_RETURN(Quotient left, signed_power());
    for (;;) {
      if (take("//")) {
        LFARM_ASSIGN_OR_RETURN(Quotient right, signed_power());
        if (!is_divisor(whole(right))) return zero();
        if (!fits(left.above, right.above)) return Quotient{};
        left = {common::floor_div(whole(left), whole(right)), 1};
      } else if (take("*")) {
        LFARM_ASSIGN_OR_RETURN(Quotient right, signed_power());
        left = times(left, right);
      } else if (take("/")) {
        LFARM_ASSIGN_OR_RETURN(Quotient right, signed_power());
        if (right.above.is_constant(0)) return zero();
        left = times(left, {right.below, right.above});
      } else if (take("%")) {
        LFARM_ASSIGN_OR_RETURN(Quotient right, signed_power());
        if (!is_divisor(whole(right))) return zero();
        if (!fits(left.above, right.above)) return Quotient{};
        left = {common::mod(whole(left), whole(right)), 1};
      } else {
        return left;
      }
    }
  }

  Result<Quotient> signed_power() {
    if (++depth_ > kMaxSympyDepth) return malformed();
    if (take("-")) {
      LFARM_ASSIGN_OR_RETURN(Quotient value, signed_power());
      --depth_;
      return negative(value);
    }
    LFARM_ASSIGN_OR_RETURN(Quotient base, atom());
    if (take("**")) {
      LFARM_ASSIGN_OR_RETURN(Quotient exponent, signed_power());
      LFARM_ASSIGN_OR_RETURN(base, power(base, exponent));
    }
    --depth_;
    return base;
  }

  Result<Quotient> atom() {
    skip_spaces();
    if (take("(")) {
      LFARM_ASSIGN_OR_RETURN(Quotient value, sum());
      if (!take(")")) return malformed();
      return value;
    }
    if (at_ >= text_.size()) return malformed();
    char c = text_[at_];
    if (c >= '0' && c <= '9') return number();
    size_t start = at_;
    auto is_word = [](char letter) {
      return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
             (letter >= '0' && letter <= '9') || letter == '_' || letter == '.';
    };
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (start == at_) return malformed();
    std::string_view name = text_.substr(start, at_ - start);
    if (!take("(")) return symbol(name);
    if (name == "Symbol") return quoted_symbol();
    return call(name);
  }

  Result<Quotient> number() {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return malformed();
    at_ = static_cast<size_t>(end - text_.data());
    return Quotient{Expr(value), 1};
  }

  Result<Quotient> symbol(std::string_view name) const {
    auto value = lookup_(name);
    if (!value) return unknown(cat("the symbol '", name, "', which no input's size defines"));
    return Quotient{*value, 1};
  }

  // 's0', positive=True, integer=True)
  Result<Quotient> quoted_symbol() {
    if (!take("'")) return malformed();
    size_t quote = text_.find('\'', at_);
    size_t close = text_.find(')', at_);
    if (quote == std::string_view::npos || close == std::string_view::npos || close < quote) {
      return malformed();
    }
    std::string_view name = text_.substr(at_, quote - at_);
    at_ = close + 1;
    return symbol(name);
  }

  Result<Quotient> call(std::string_view name) {
    std::vector<Quotient> arguments;
    while (!take(")")) {
      if (!arguments.empty() && !take(",")) return malformed();
      LFARM_ASSIGN_OR_RETURN(Quotient argument, sum());
      arguments.push_back(argument);
    }
    bool divides = name == "Rational" || name == "IntTrueDiv" || name == "CleanDiv" ||
                   name == "FloorDiv" || name == "CeilDiv" || name == "Mod" || name == "PythonMod";
    bool is_ratio = name == "Rational" || name == "IntTrueDiv" || name == "CleanDiv";
    if (divides && arguments.size() == 2) {
      Expr divisor = whole(arguments[1]);
      if (is_ratio ? divisor.is_constant(0) : !is_divisor(divisor)) return zero();
    }
    if (auto value = apply(name, arguments)) return *value;
    if (name == "Pow" && arguments.size() == 2) return power(arguments[0], arguments[1]);
    return unknown(cat("the function '", name, "'"));
  }

  std::optional<Quotient> apply(std::string_view name, const std::vector<Quotient>& a) {
    if (a.empty()) return std::nullopt;
    if (a.size() == 1) {
      if (name == "Integer" || name == "TruncToInt" || name == "Identity") return a[0];
      if (name == "floor" || name == "FloorToInt") {
        return Quotient{common::floor_div(a[0].above, a[0].below), 1};
      }
      if (name == "ceiling" || name == "CeilToInt") {
        return Quotient{-common::floor_div(-a[0].above, a[0].below), 1};
      }
    }
    if (name == "Add" || name == "Mul" || name == "Max" || name == "Min") {
      Quotient out = a[0];
      for (size_t i = 1; i < a.size(); ++i) {
        if (name == "Add") out = plus(out, a[i]);
        if (name == "Mul") out = times(out, a[i]);
        if (name != "Max" && name != "Min") continue;
        Expr x = whole(out);
        Expr y = whole(a[i]);
        if (!fits(x, y)) return Quotient{};
        out = {name == "Max" ? common::max(x, y) : common::min(x, y), 1};
      }
      return out;
    }
    if (a.size() != 2) return std::nullopt;
    if (name == "Rational" || name == "IntTrueDiv" || name == "CleanDiv") {
      return times(a[0], {a[1].below, a[1].above});
    }
    Expr x = whole(a[0]);
    Expr y = whole(a[1]);
    if (!fits(x, y)) return Quotient{};
    if (name == "FloorDiv") return Quotient{common::floor_div(x, y), 1};
    if (name == "CeilDiv") return Quotient{-common::floor_div(-x, y), 1};
    if (name == "Mod" || name == "PythonMod") return Quotient{common::mod(x, y), 1};
    return std::nullopt;
  }

  std::string_view text_;
  const SymbolLookup& lookup_;
  size_t at_ = 0;
  int depth_ = 0;
  bool is_too_large_ = false;
};

}  // namespace

Result<Expr> parse_sympy(std::string_view text, const SymbolLookup& lookup) {
  return Parser(text, lookup).run();
}

}  // namespace clients
