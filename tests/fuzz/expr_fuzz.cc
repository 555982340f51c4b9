// Goal: a size expression, as exported programs spell it and as graphs are printed, is a value that
// prints and reads back the same, or is refused; short texts take little time and memory.
// Method: expressions with every operator, damaged, given to both parsers.
#include "clients/pt2/aten/sympy_parser.h"
#include "common/base/check.h"
#include "common/ir/expr/expr.h"
#include "common/ir/expr/expr_size.h"
#include "tests/fuzz/fuzz.h"

std::vector<std::string> fuzz::seeds() {
  return {"Add(Symbol('s0', positive=True, integer=True), Integer(1))",
          "Mul(Integer(2), Symbol('s21', integer=True), Pow(Symbol('s0'), Integer(2)))",
          "FloorDiv(Add(Symbol('s0'), Integer(-1)), Integer(4))",
          "Max(1, Min(s0, 64)) + CeilDiv(s1, 8) - Mod(s0, 3)",
          "((s0 + 3) // 4)*(s1 + 1)*(s2 - 1)",
          "floor(s0/2) + ceiling(s1/3)",
          "s0**2*s1",
          "min(s0, 4)*max(i1, 3) % 7 - (i0 // 2)"};
}

size_t fuzz::heap_bytes_max() { return size_t{64} << 20; }

void fuzz::one_input(common::ByteView bytes) {
  auto symbols = [](std::string_view name) -> std::optional<common::Expr> {
    if (name.size() < 2 || name[0] != 's' || name[1] < '0' || name[1] > '9') return std::nullopt;
    return common::Expr::symbol(name[1] - '0');
  };
  auto check = [](const common::Expr& expr) {
    std::string text = expr.text();
    // Close to the bound, a sum that was multiplied out may be refused as it is written.
    if (common::written_size(expr) > common::kExprSizeMax / 4) return;
    auto again = common::parse_expr(text);
    LFARM_CHECK(again.ok(), text);
    LFARM_CHECK(again->text() == text, "a size changed when it was printed");
  };
  std::string_view text = common::as_text(bytes);
  auto sympy = clients::parse_sympy(text, symbols);
  if (sympy.ok()) check(*sympy);
  auto expr = common::parse_expr(text);
  if (expr.ok()) check(*expr);
}
