// Strength reduction: powers, quotients and roots by cheaper operations.
#include <cmath>

#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;

// x / c as x * (1 / c), where 1 / c is a normal number.
std::optional<ClassId> times_inverse(Rewriter& r, const Match& match, bool power_of_two) {
  DType dtype = r.dtype(match["x"]);
  auto value = r.uniform_value(match["c"]);
  int exponent = 0;
  if (!value || !common::is_float(dtype) || !std::isfinite(*value) || *value == 0) {
    return std::nullopt;
  }
  bool is_power = std::abs(std::frexp(*value, &exponent)) == 0.5;
  if (is_power != power_of_two || std::abs(exponent) > 100) return std::nullopt;
  return r.binary(BinaryOp::kMul, match["x"], r.scalar(dtype, 1 / *value, r.shape(match["x"])));
}

// Two constants on the way to one value become one: (x op1 c1) op2 c2. Whole numbers wrap, so that
// any sum will do; constants beyond 2^31 might not be exact here.
std::optional<ClassId> one_offset(Rewriter& r, const Match& match, double sign1, double sign2) {
  auto c1 = r.uniform_value(match["c1"]), c2 = r.uniform_value(match["c2"]);
  DType dtype = r.dtype(match["x"]);
  constexpr double kExact = 2147483648.0;
  if (!c1 || !c2 || dtype != DType::kInt64 || std::abs(*c1) > kExact || std::abs(*c2) > kExact) {
    return std::nullopt;
  }
  double sum = sign1 * *c1 + sign2 * *c2;
  return r.binary(BinaryOp::kAdd, match["x"], r.scalar(dtype, sum, r.shape(match["x"])));
}

// The product of the constants must be a normal number of the type, as they are themselves.
std::optional<ClassId> one_factor(Rewriter& r, const Match& match) {
  auto c1 = r.uniform_value(match["c1"]), c2 = r.uniform_value(match["c2"]);
  DType dtype = r.dtype(match["x"]);
  auto is_normal = [](double value) { return std::abs(value) > 1e-30 && std::abs(value) < 1e30; };
  if (!c1 || !c2 || !common::is_float(dtype) || !is_normal(*c1) || !is_normal(*c2) ||
      !is_normal(*c1 * *c2)) {
    return std::nullopt;
  }
  return r.binary(BinaryOp::kMul, match["x"], r.scalar(dtype, *c1 * *c2, r.shape(match["x"])));
}

}  // namespace

void add_strength_rules(RuleMaker& m) {
  m.rewrite("pow-two", Equivalence::kRounding, "(binary.pow@ ?x ?c)", "(binary.mul ?x ?x)",
            {{"c", 2}});
  m.rewrite("pow-three", Equivalence::kRounding, "(binary.pow@ ?x ?c)",
            "(binary.mul ?x (binary.mul ?x ?x))", {{"c", 3}});
  m.rule("div-by-power-of-two", Equivalence::kBits, "(binary.div@ ?x ?c)",
         [](Rewriter& r, const Match& match) { return times_inverse(r, match, true); });
  m.rule("div-by-constant", Equivalence::kRounding, "(binary.div@ ?x ?c)",
         [](Rewriter& r, const Match& match) { return times_inverse(r, match, false); });
  m.rule("add-add-constants", Equivalence::kBits, "(binary.add@ (binary.add@ ?x ?c1) ?c2)",
         [](Rewriter& r, const Match& match) { return one_offset(r, match, 1, 1); });
  m.rule("sub-add-constants", Equivalence::kBits, "(binary.add@ (binary.sub@ ?x ?c1) ?c2)",
         [](Rewriter& r, const Match& match) { return one_offset(r, match, -1, 1); });
  m.rule("add-sub-constants", Equivalence::kBits, "(binary.sub@ (binary.add@ ?x ?c1) ?c2)",
         [](Rewriter& r, const Match& match) { return one_offset(r, match, 1, -1); });
  m.rule("sub-sub-constants", Equivalence::kBits, "(binary.sub@ (binary.sub@ ?x ?c1) ?c2)",
         [](Rewriter& r, const Match& match) { return one_offset(r, match, -1, -1); });
  m.rule("mul-mul-constants", Equivalence::kRounding, "(binary.mul@ (binary.mul@ ?x ?c1) ?c2)",
         [](Rewriter& r, const Match& match) { return one_factor(r, match); });
  // The power of a negative infinity or of a negative zero is not the root's.
  m.rewrite("pow-half", Equivalence::kFinite, "(binary.pow@ ?x ?c)", "(unary.sqrt ?x)",
            {{"c", 0.5}});
  m.rewrite("pow-minus-half", Equivalence::kFinite, "(binary.pow@ ?x ?c)", "(unary.rsqrt ?x)",
            {{"c", -0.5}});
  m.rule("pow-minus-one", Equivalence::kRounding, "(binary.pow@ ?x ?c)",
         [](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           auto value = r.uniform_value(match["c"]);
           if (!value || *value != -1 || !common::is_float(r.dtype(match["x"]))) {
             return std::nullopt;
           }
           return r.unary(common::UnaryOp::kRecip, match["x"]);
         });
  m.rewrite("recip-sqrt", Equivalence::kRounding, "(unary.recip@ (unary.sqrt@ ?x))",
            "(unary.rsqrt ?x)");
  m.rewrite("one-over-sqrt", Equivalence::kRounding, "(binary.div@ ?n (unary.sqrt@ ?x))",
            "(unary.rsqrt ?x)", {{"n", 1}});
  m.rewrite("one-over-exp-plus-one", Equivalence::kRounding,
            "(unary.recip@ (binary.add@ ?n (unary.exp@ (unary.neg@ ?x))))", "(unary.sigmoid ?x)",
            {{"n", 1}});
  m.rewrite("exp-plus-one-inverse", Equivalence::kRounding,
            "(unary.recip@ (binary.add@ (unary.exp@ (unary.neg@ ?x)) ?n))", "(unary.sigmoid ?x)",
            {{"n", 1}});
  m.rewrite("square-of-sqrt", Equivalence::kFinite, "(binary.mul@ ?s:(unary.sqrt@ ?x) ?s)", "?x");
}

}  // namespace coordinator
