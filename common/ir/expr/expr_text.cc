#include <charconv>

#include "common/base/cat.h"
#include "common/ir/expr/expr.h"
#include "common/ir/expr/expr_size.h"

namespace common {

std::string Expr::text() const {
  if (is_constant()) return cat(constant());
  auto operand = [](const Expr& e) {
    return e.kind() == ExprKind::kSum ? cat('(', e.text(), ')') : e.text();
  };
  switch (kind()) {
    case ExprKind::kVar:
      return cat(as_var()->kind == Var::Kind::kSymbol ? 's' : 'i', as_var()->id);
    case ExprKind::kFloorDiv:
      return cat('(', operand(left()), " // ", operand(right()), ')');
    case ExprKind::kMod:
      return cat('(', operand(left()), " % ", operand(right()), ')');
    case ExprKind::kMin:
      return cat("min(", left().text(), ", ", right().text(), ')');
    case ExprKind::kMax:
      return cat("max(", left().text(), ", ", right().text(), ')');
    default:
      break;
  }
  std::string out;
  for (const Term& term : terms()) {
    int64_t c = term.coefficient;
    if (!out.empty()) {
      // The least number has no positive counterpart.
      uint64_t size = c < 0 ? uint64_t{0} - static_cast<uint64_t>(c) : static_cast<uint64_t>(c);
      out += c < 0 ? " - " : " + ";
      if (size != 1) out += cat(size, '*');
    } else if (c == -1) {
      out += '-';
    } else if (c != 1) {
      out += cat(c, '*');
    }
    for (size_t i = 0; i < term.factors.size(); ++i) {
      if (i != 0) out += '*';
      out += term.factors[i].text();
    }
  }
  if (sum_constant() > 0) out += cat(" + ", sum_constant());
  if (sum_constant() < 0) out += cat(" - ", uint64_t{0} - static_cast<uint64_t>(sum_constant()));
  return out;
}

namespace {

// Recursive descent: sum := product (('+'|'-') product)*, product := unary (('*'|'//'|'%') unary)*.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Result<Expr> run() {
    if (text_.size() > kTextMax) return invalid_input("a size expression is too long");
    auto expr = sum(0);
    if (!expr) return invalid_input(cat("cannot parse size expression '", shown(), "'"));
    skip();
    if (at_ != text_.size()) {
      return invalid_input(cat("unexpected text at column ", at_ + 1, " of '", shown(), "'"));
    }
    return *expr;
  }

 private:
  static constexpr int kMaxDepth = 100;
  static constexpr size_t kTextMax = size_t{64} << 10;
  // As much as a message needs.
  std::string_view shown() const { return text_.substr(0, 200); }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  static bool fits(const std::optional<Expr>& right, const Expr& left) {
    return right && pair_is_small(left, *right);
  }
  std::optional<Expr> sum(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    auto left = product(depth);
    while (left) {
      if (take("+")) {
        auto right = product(depth);
        left = fits(right, *left) ? std::optional(*left + *right) : std::nullopt;
      } else if (take("-")) {
        auto right = product(depth);
        left = fits(right, *left) ? std::optional(*left - *right) : std::nullopt;
      } else {
        break;
      }
    }
    return left;
  }
  std::optional<Expr> product(int depth) {
    auto left = unary(depth);
    while (left) {
      char operation = take("//") ? '/' : take("*") ? '*' : take("%") ? '%' : ' ';
      if (operation == ' ') break;
      auto right = unary(depth);
      if (!fits(right, *left)) return std::nullopt;
      bool divides = operation != '*';
      if (divides && right->is_constant() && right->constant() < 1) return std::nullopt;
      if (operation == '*' && !product_is_small(*left, *right)) return std::nullopt;
      left = operation == '*'   ? *left * *right
             : operation == '/' ? floor_div(*left, *right)
                                : mod(*left, *right);
    }
    return left;
  }
  std::optional<Expr> unary(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (take("-")) {
      auto operand = unary(depth + 1);
      return operand ? std::optional(-*operand) : std::nullopt;
    }
    if (take("(")) {
      auto inner = sum(depth + 1);
      return inner && take(")") ? inner : std::nullopt;
    }
    bool is_min = take("min(");
    if (is_min || take("max(")) {
      auto a = sum(depth + 1);
      if (!a || !take(",")) return std::nullopt;
      auto b = sum(depth + 1);
      if (!fits(b, *a) || !take(")")) return std::nullopt;
      return is_min ? min(*a, *b) : max(*a, *b);
    }
    return atom();
  }
  std::optional<Expr> atom() {
    skip();
    char prefix = at_ < text_.size() ? text_[at_] : ' ';
    if (prefix == 's' || prefix == 'i') ++at_;
    // The least number is printed as the negative of one that is too large by one.
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value > uint64_t{1} << 63) return std::nullopt;
    at_ = static_cast<size_t>(end - text_.data());
    if (prefix != 's' && prefix != 'i') return Expr(static_cast<int64_t>(value));
    if (value > 1'000'000) return std::nullopt;
    return prefix == 's' ? Expr::symbol(static_cast<int>(value))
                         : Expr::index(static_cast<int>(value));
  }
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Expr> parse_expr(std::string_view text) { return Parser(text).run(); }

Expr element_count(const Shape& shape) {
  Expr count = 1;
  for (const Expr& size : shape) count *= size;
  return count;
}

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ", ";
    out += shape[i].text();
  }
  return out + "]";
}

}  // namespace common
