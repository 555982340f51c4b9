// Symbolic expressions: if these fail, shapes compare wrongly or kernels read wrong addresses.
#include "common/ir/expr/expr.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "common/base/cat.h"
#include "common/base/random.h"
#include "common/ir/expr/bounds.h"

namespace common {
namespace {

const Expr s0 = Expr::symbol(0);
const Expr s1 = Expr::symbol(1);
const Expr i0 = Expr::index(0);
const Expr i1 = Expr::index(1);

TEST(Expr, PolynomialsHaveOneForm) {
  EXPECT_EQ((s0 + 1) * (s0 - 1), s0 * s0 - 1);
  EXPECT_EQ(s0 * s1 + s1 * s0, Expr(2) * s1 * s0);
  EXPECT_EQ(s0 - s0, Expr(0));
  EXPECT_NE(s0, s1);
}

TEST(Expr, DivisionTakesOutWhatDivides) {
  EXPECT_EQ(floor_div(Expr(6) * s0 + 4, 2), Expr(3) * s0 + 2);
  EXPECT_EQ(floor_div(s0 * s1 * 4, s0), Expr(4) * s1);
  EXPECT_EQ(mod(Expr(8) * s0 + 3, 4), Expr(3));
  EXPECT_EQ(floor_div(floor_div(s0, 3), 5), floor_div(s0, 15));
}

TEST(Expr, PolynomialsDivideExactly) {
  const Expr divisors[] = {s1 - 1, s0 + s1, s0 * s1 * 2 - s0 + 3, s0 * s0 - s1 * s1};
  const Expr quotients[] = {s0, Expr(3), s0 - s1 + 1, s0 * s0 * s1 - 5};
  for (const Expr& b : divisors) {
    for (const Expr& q : quotients) {
      EXPECT_EQ(exact_div(q * b, b), q) << q.text() << " of " << b.text();
      EXPECT_FALSE(exact_div(q * b + 1, b)) << q.text() << " of " << b.text();
      EXPECT_FALSE(exact_div(q * b + s0, b)) << q.text() << " of " << b.text();
    }
  }
  EXPECT_FALSE(exact_div(s0, s0 + s1));
}

TEST(Expr, QuotientAndRemainderJoin) {
  EXPECT_EQ(floor_div(i0, 8) * 8 + mod(i0, 8), i0);
  EXPECT_EQ(floor_div(i0, 8) * 24 + mod(i0, 8) * 3 + i1, i0 * 3 + i1);
}

TEST(Expr, TextReadsBack) {
  for (const Expr& e : {s0 * 2 + floor_div(i1, 3) - 1, mod(s0 - 4, s1), min(s0, s1 + 3),
                        max(i0, -s0), -s0 * s1 * 3, Expr(-7)}) {
    auto back = parse_expr(e.text());
    ASSERT_TRUE(back.ok()) << e.text();
    EXPECT_EQ(*back, e) << e.text();
  }
  EXPECT_FALSE(parse_expr("2*").ok());
  EXPECT_FALSE(parse_expr("s0 // 0").ok());
  EXPECT_FALSE(parse_expr("(s0").ok());
}

Expr random_expr(Random& random, int depth) {
  if (depth == 0 || random.chance(0.2)) {
    switch (random.below(5)) {
      case 0:
        return s0;
      case 1:
        return s1;
      case 2:
        return i0;
      case 3:
        return i1;
      default:
        return static_cast<int64_t>(random.below(9)) - 3;
    }
  }
  Expr a = random_expr(random, depth - 1);
  Expr b = random_expr(random, depth - 1);
  switch (random.below(7)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return floor_div(a, static_cast<int64_t>(1 + random.below(6)));
    case 4:
      return mod(a, static_cast<int64_t>(1 + random.below(6)));
    case 5:
      return min(a, b);
    default:
      return max(a, b);
  }
}

// Canonicalisation, substitution, text and range simplification must all keep the value.
TEST(Expr, RandomExpressionsKeepTheirValue) {
  std::vector<SymbolRange> ranges = {{2, 9}, {1, 5}};
  std::vector<Expr> extents = {s0, Expr(7)};
  Bounds bounds(ranges, extents);
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    Expr e = random_expr(random, 4);
    Expr simplified = bounds.simplify(e);
    int64_t lower = bounds.lower(e);
    int64_t upper = bounds.upper(e);
    auto parsed = parse_expr(e.text());
    ASSERT_TRUE(parsed.ok()) << e.text();
    for (int sample = 0; sample < 10; ++sample) {
      std::vector<int64_t> symbols = {2 + static_cast<int64_t>(random.below(8)),
                                      1 + static_cast<int64_t>(random.below(5))};
      std::vector<int64_t> indices = {
          static_cast<int64_t>(random.below(static_cast<uint64_t>(symbols[0]))),
          static_cast<int64_t>(random.below(7))};
      int64_t value = e.evaluate(symbols, indices);
      ASSERT_EQ(simplified.evaluate(symbols, indices), value)
          << "seed " << seed << ": " << e.text() << " became " << simplified.text();
      ASSERT_EQ(parsed->evaluate(symbols, indices), value) << e.text();
      ASSERT_LE(lower, value) << "seed " << seed << ": " << e.text();
      ASSERT_GE(upper, value) << "seed " << seed << ": " << e.text();
      Expr shifted = e.substitute([](Var v) { return Expr::var(v) + 1 - 1; });
      ASSERT_EQ(shifted.evaluate(symbols, indices), value) << e.text();
    }
  }
}

TEST(Bounds, SymbolicExtentsDecideDivisions) {
  Bounds bounds({{2, 4096}}, {Expr(4), s0});
  EXPECT_EQ(bounds.simplify(floor_div(i0 * s0 + i1, s0)), i0);
  EXPECT_EQ(bounds.simplify(mod(i0 * s0 + i1, s0)), i1);
  EXPECT_TRUE(bounds.provably_less(i0 * s0 + i1, s0 * 4));
  EXPECT_FALSE(bounds.provably_less(i0 * s0 + i1, s0 * 3));
}

TEST(Bounds, StepsWithinADivisor) {
  Bounds bounds({{1, 100}}, {Expr(48), Expr(8)});
  Expr i0 = Expr::index(0), i1 = Expr::index(1), s0 = Expr::symbol(0);
  EXPECT_EQ(bounds.simplify(floor_div(i0 * 8 + i1, 64)), floor_div(i0, 8));
  EXPECT_EQ(bounds.simplify(mod(i0 * 8 + i1, 64)), mod(i0, 8) * 8 + i1);
  EXPECT_EQ(bounds.simplify(mod(i0 * 8 + i1 + 64 * s0, 64)), mod(i0, 8) * 8 + i1);
  EXPECT_EQ(bounds.simplify(floor_div(i0 * 8 + i1 - 8, 64)), floor_div(i0 - 1, 8));
  // What is added reaches into the next step.
  EXPECT_EQ(bounds.simplify(floor_div(i0 * 4 + i1, 64)), floor_div(i0 * 4 + i1, 64));
  EXPECT_EQ(bounds.simplify(mod(i0 * 8 + i1 - 1, 64)), mod(i0 * 8 + i1 - 1, 64));
}

TEST(Expr, TheRemainderOfExtremesDoesNotOverflow) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kLarge = 3'278'620'528'725'721'152;
  EXPECT_EQ(mod(Expr(kLeast), Expr(kLarge)).constant(), 612'489'549'322'387'648);
  EXPECT_EQ(mod(Expr(kLeast), Expr(-1)).constant(), 0);
  Expr s = Expr::symbol(0);
  std::array<int64_t, 1> sizes = {kLeast};
  EXPECT_EQ(mod(s, kLarge).evaluate(sizes, {}), 612'489'549'322'387'648);
  EXPECT_EQ(mod(s, -1).evaluate(sizes, {}), 0);
}

TEST(Expr, ExtremeNumbersSurviveTheirText) {
  for (int64_t value : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    for (const Expr& expr : {Expr(value), s0 * value, s0 + value}) {
      auto again = parse_expr(expr.text());
      ASSERT_TRUE(again.ok()) << expr.text();
      EXPECT_EQ(*again, expr);
    }
  }
  EXPECT_FALSE(parse_expr("9999999999999999999").ok());
}

// A product of sums has as many terms as there are ways to choose from them.
TEST(Expr, ShortTextsOfHugeExpressionsAreRefused) {
  std::string text = "(s0 + s1)";
  for (int i = 1; i < 8; ++i) text += cat("*(s", 2 * i, " + s", 2 * i + 1, ")");
  EXPECT_TRUE(parse_expr(text).ok());
  for (int i = 8; i < 30; ++i) text += cat("*(s", 2 * i, " + s", 2 * i + 1, ")");
  EXPECT_FALSE(parse_expr(text).ok());
}

}  // namespace
}  // namespace common
