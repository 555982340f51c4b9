// Neutral elements, boolean algebra and comparisons of a value with itself.
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::DType;

bool is_whole(const Rewriter& r, ClassId cls) {
  return common::is_integer(r.dtype(cls)) || r.dtype(cls) == DType::kBool;
}

void add_neutral_elements(RuleMaker& m) {
  m.rewrite("add-zero", Equivalence::kBits, "(binary.add@ ?x ?n)", "?x", {{"n", 0}});
  m.rewrite("zero-add", Equivalence::kBits, "(binary.add@ ?n ?x)", "?x", {{"n", 0}});
  m.rewrite("sub-zero", Equivalence::kBits, "(binary.sub@ ?x ?n)", "?x", {{"n", 0}});
  m.rewrite("mul-one", Equivalence::kBits, "(binary.mul@ ?x ?n)", "?x", {{"n", 1}});
  m.rewrite("one-mul", Equivalence::kBits, "(binary.mul@ ?n ?x)", "?x", {{"n", 1}});
  m.rewrite("div-one", Equivalence::kBits, "(binary.div@ ?x ?n)", "?x", {{"n", 1}});
  m.rewrite("pow-one", Equivalence::kBits, "(binary.pow@ ?x ?n)", "?x", {{"n", 1}});
}

// On bool; integers have the same operations bitwise, where 1 is not neutral.
void add_boolean_algebra(RuleMaker& m) {
  auto on_bool = [&m](const char* name, const char* pattern, double constant, bool keeps_x) {
    m.rule(name, Equivalence::kBits, pattern,
           [constant, keeps_x](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             if (r.dtype(match["x"]) != DType::kBool) return std::nullopt;
             auto value = r.uniform_value(match["n"]);
             if (!value || *value != constant) return std::nullopt;
             return keeps_x ? match["x"] : match["n"];
           });
  };
  on_bool("and-true", "(binary.and@ ?x ?n)", 1, true);
  on_bool("true-and", "(binary.and@ ?n ?x)", 1, true);
  on_bool("or-false", "(binary.or@ ?x ?n)", 0, true);
  on_bool("false-or", "(binary.or@ ?n ?x)", 0, true);
  on_bool("and-false", "(binary.and@ ?x ?n)", 0, false);
  on_bool("false-and", "(binary.and@ ?n ?x)", 0, false);
  on_bool("or-true", "(binary.or@ ?x ?n)", 1, false);
  on_bool("true-or", "(binary.or@ ?n ?x)", 1, false);
  m.rewrite("and-same", Equivalence::kBits, "(binary.and@ ?x ?x)", "?x");
  m.rewrite("or-same", Equivalence::kBits, "(binary.or@ ?x ?x)", "?x");
  m.rewrite("not-not", Equivalence::kBits, "(unary.not@ (unary.not@ ?x))", "?x");
}

// NaN equals nothing, itself included: where that matters, whole numbers only.
void add_self_comparisons(RuleMaker& m) {
  auto constant = [&m](const char* name, const char* pattern, double value, bool whole_only) {
    m.rule(name, Equivalence::kBits, pattern,
           [value, whole_only](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             if (whole_only && !is_whole(r, match["x"])) return std::nullopt;
             return r.scalar(r.dtype(match.root), value, r.shape(match.root));
           });
  };
  constant("equal-self", "(binary.equal@ ?x ?x)", 1, true);
  constant("not-equal-self", "(binary.not_equal@ ?x ?x)", 0, true);
  constant("less-equal-self", "(binary.less_equal@ ?x ?x)", 1, true);
  constant("less-self", "(binary.less@ ?x ?x)", 0, false);
  constant("sub-self", "(binary.sub@ ?x ?x)", 0, true);
  m.rewrite("min-self", Equivalence::kBits, "(binary.min@ ?x ?x)", "?x");
  m.rewrite("max-self", Equivalence::kBits, "(binary.max@ ?x ?x)", "?x");
}

void add_selects(RuleMaker& m) {
  m.rewrite("select-same", Equivalence::kBits, "(select@ ?c ?x ?x)", "?x");
  m.rewrite("select-true", Equivalence::kBits, "(select@ ?c ?x ?y)", "?x", {{"c", 1}});
  m.rewrite("select-false", Equivalence::kBits, "(select@ ?c ?x ?y)", "?y", {{"c", 0}});
  m.rewrite("select-not", Equivalence::kBits, "(select@ (unary.not@ ?c) ?x ?y)",
            "(select ?c ?y ?x)");
}

void add_signs(RuleMaker& m) {
  m.rewrite("neg-neg", Equivalence::kBits, "(unary.neg@ (unary.neg@ ?x))", "?x");
  m.rewrite("add-neg", Equivalence::kBits, "(binary.add@ ?x (unary.neg@ ?y))",
            "(binary.sub ?x ?y)");
  m.rewrite("neg-add", Equivalence::kBits, "(binary.add@ (unary.neg@ ?y) ?x)",
            "(binary.sub ?x ?y)");
  m.rewrite("sub-neg", Equivalence::kBits, "(binary.sub@ ?x (unary.neg@ ?y))",
            "(binary.add ?x ?y)");
  m.rewrite("zero-sub", Equivalence::kBits, "(binary.sub@ ?n ?x)", "(unary.neg ?x)", {{"n", 0}});
  m.rewrite("mul-minus-one", Equivalence::kBits, "(binary.mul@ ?x ?n)", "(unary.neg ?x)",
            {{"n", -1}});
  m.rewrite("minus-one-mul", Equivalence::kBits, "(binary.mul@ ?n ?x)", "(unary.neg ?x)",
            {{"n", -1}});
}

}  // namespace

void add_algebra_rules(RuleMaker& maker) {
  add_neutral_elements(maker);
  add_boolean_algebra(maker);
  add_self_comparisons(maker);
  add_selects(maker);
  add_signs(maker);
}

}  // namespace coordinator
