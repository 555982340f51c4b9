#include "rules_cases.h"

#include "common/base/cat.h"
#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

void add_with_constants(Cases& cases) {
  struct Neutral {
    const char* rule;
    BinaryOp op;
    double constant;
    bool constant_first;
    std::vector<DType> dtypes;
  };
  for (const Neutral& n : std::vector<Neutral>{
           {"add-zero", BinaryOp::kAdd, 0, false, kNumbers},
           {"zero-add", BinaryOp::kAdd, 0, true, kNumbers},
           {"sub-zero", BinaryOp::kSub, 0, false, kNumbers},
           {"zero-sub", BinaryOp::kSub, 0, true, kNumbers},
           {"mul-one", BinaryOp::kMul, 1, false, kNumbers},
           {"one-mul", BinaryOp::kMul, 1, true, kNumbers},
           {"div-one", BinaryOp::kDiv, 1, false, kNumbers},
           {"pow-one", BinaryOp::kPow, 1, false, kNumbers},
           {"mul-minus-one", BinaryOp::kMul, -1, false, {DType::kFloat32, DType::kInt64}},
           {"minus-one-mul", BinaryOp::kMul, -1, true, {DType::kFloat64, DType::kInt8}},
           {"pow-two", BinaryOp::kPow, 2, false, kNumbers},
           {"pow-three", BinaryOp::kPow, 3, false, kNumbers},
           {"pow-half", BinaryOp::kPow, 0.5, false, kFloats},
           {"pow-minus-half", BinaryOp::kPow, -0.5, false, kFloats},
           {"pow-minus-one", BinaryOp::kPow, -1, false, kFloats},
           {"div-by-power-of-two", BinaryOp::kDiv, 8, false, kFloats},
           {"div-by-power-of-two", BinaryOp::kDiv, -0.25, false, kFloats},
           {"div-by-constant", BinaryOp::kDiv, 3, false, kFloats},
           {"and-true", BinaryOp::kAnd, 1, false, kBool},
           {"true-and", BinaryOp::kAnd, 1, true, kBool},
           {"or-false", BinaryOp::kOr, 0, false, kBool},
           {"false-or", BinaryOp::kOr, 0, true, kBool},
           {"and-false", BinaryOp::kAnd, 0, false, kBool},
           {"false-and", BinaryOp::kAnd, 0, true, kBool},
           {"or-true", BinaryOp::kOr, 1, false, kBool},
           {"true-or", BinaryOp::kOr, 1, true, kBool}}) {
    cases.emplace(n.rule, RuleCase{n.dtypes, [n](GraphBuilder& b, DType t) {
                                     IrNode x = input(b, t);
                                     IrNode c = filled(b, t, x, n.constant);
                                     b.output(n.constant_first ? binary(b, n.op, c, x)
                                                               : binary(b, n.op, x, c));
                                   }});
  }
}

void add_with_self(Cases& cases) {
  struct Self {
    const char* rule;
    BinaryOp op;
    std::vector<DType> dtypes;
  };
  for (const Self& s :
       std::vector<Self>{{"and-same", BinaryOp::kAnd, {DType::kBool, DType::kInt32}},
                         {"or-same", BinaryOp::kOr, {DType::kBool, DType::kInt32}},
                         {"equal-self", BinaryOp::kEqual, kIntegers},
                         {"not-equal-self", BinaryOp::kNotEqual, kIntegers},
                         {"less-equal-self", BinaryOp::kLessEqual, kIntegers},
                         {"less-self", BinaryOp::kLess, kNumbers},
                         {"sub-self", BinaryOp::kSub, kIntegers},
                         {"min-self", BinaryOp::kMin, kNumbers},
                         {"max-self", BinaryOp::kMax, kNumbers}}) {
    cases.emplace(s.rule, RuleCase{s.dtypes, [s](GraphBuilder& b, DType t) {
                                     IrNode x = input(b, t);
                                     b.output(binary(b, s.op, x, x));
                                   }});
  }
}

void add_algebra(Cases& cases) {
  auto on = [&](const char* rule, std::vector<DType> dtypes, auto build) {
    cases.emplace(rule, RuleCase{std::move(dtypes), [build](GraphBuilder& b, DType t) {
                                   IrNode x = input(b, t), y = input(b, t);
                                   IrNode c = input(b, DType::kBool);
                                   b.output(build(b, x, y, c));
                                 }});
  };
  auto neg = [](GraphBuilder& b, IrNode x) { return unary(b, UnaryOp::kNeg, x); };
  on("not-not", {DType::kBool, DType::kInt64}, [](GraphBuilder& b, IrNode x, IrNode, IrNode) {
    return unary(b, UnaryOp::kNot, unary(b, UnaryOp::kNot, x));
  });
  on("select-same", kNumbers,
     [](GraphBuilder& b, IrNode x, IrNode, IrNode c) { return select(b, c, x, x); });
  on("select-true", kNumbers, [](GraphBuilder& b, IrNode x, IrNode y, IrNode) {
    return select(b, filled(b, DType::kBool, x, 1), x, y);
  });
  on("select-false", kNumbers, [](GraphBuilder& b, IrNode x, IrNode y, IrNode) {
    return select(b, filled(b, DType::kBool, x, 0), x, y);
  });
  on("select-not", kNumbers, [](GraphBuilder& b, IrNode x, IrNode y, IrNode c) {
    return select(b, unary(b, UnaryOp::kNot, c), x, y);
  });
  on("neg-neg", kNumbers,
     [neg](GraphBuilder& b, IrNode x, IrNode, IrNode) { return neg(b, neg(b, x)); });
  on("add-neg", kNumbers, [neg](GraphBuilder& b, IrNode x, IrNode y, IrNode) {
    return binary(b, BinaryOp::kAdd, x, neg(b, y));
  });
  on("neg-add", kNumbers, [neg](GraphBuilder& b, IrNode x, IrNode y, IrNode) {
    return binary(b, BinaryOp::kAdd, neg(b, y), x);
  });
  on("sub-neg", kNumbers, [neg](GraphBuilder& b, IrNode x, IrNode y, IrNode) {
    return binary(b, BinaryOp::kSub, x, neg(b, y));
  });
}

void add_strength(Cases& cases) {
  auto on = [&](const char* rule, auto build) {
    cases.emplace(rule, RuleCase{kFloats, [build](GraphBuilder& b, DType t) {
                                   IrNode x = input(b, t);
                                   b.output(build(b, x, filled(b, t, x, 1)));
                                 }});
  };
  auto exp_of_neg = [](GraphBuilder& b, IrNode x) {
    return unary(b, UnaryOp::kExp, unary(b, UnaryOp::kNeg, x));
  };
  on("recip-sqrt", [](GraphBuilder& b, IrNode x, IrNode) {
    return unary(b, UnaryOp::kRecip, unary(b, UnaryOp::kSqrt, x));
  });
  on("one-over-sqrt", [](GraphBuilder& b, IrNode x, IrNode one) {
    return binary(b, BinaryOp::kDiv, one, unary(b, UnaryOp::kSqrt, x));
  });
  on("one-over-exp-plus-one", [=](GraphBuilder& b, IrNode x, IrNode one) {
    return unary(b, UnaryOp::kRecip, binary(b, BinaryOp::kAdd, one, exp_of_neg(b, x)));
  });
  on("exp-plus-one-inverse", [=](GraphBuilder& b, IrNode x, IrNode one) {
    return unary(b, UnaryOp::kRecip, binary(b, BinaryOp::kAdd, exp_of_neg(b, x), one));
  });
  on("square-of-sqrt", [](GraphBuilder& b, IrNode x, IrNode) {
    IrNode root = unary(b, UnaryOp::kSqrt, unary(b, UnaryOp::kAbs, x));
    return binary(b, BinaryOp::kMul, root, root);
  });
}

void add_constant_chains(Cases& cases) {
  struct Chain {
    const char* rule;
    BinaryOp inner, outer;
    std::vector<DType> dtypes;
  };
  for (const Chain& c :
       std::vector<Chain>{{"add-add-constants", BinaryOp::kAdd, BinaryOp::kAdd, {DType::kInt64}},
                          {"sub-add-constants", BinaryOp::kSub, BinaryOp::kAdd, {DType::kInt64}},
                          {"add-sub-constants", BinaryOp::kAdd, BinaryOp::kSub, {DType::kInt64}},
                          {"sub-sub-constants", BinaryOp::kSub, BinaryOp::kSub, {DType::kInt64}},
                          {"mul-mul-constants", BinaryOp::kMul, BinaryOp::kMul, kFloats}}) {
    cases.emplace(c.rule, RuleCase{c.dtypes, [c](GraphBuilder& b, DType t) {
                                     IrNode x = input(b, t);
                                     IrNode inner = binary(b, c.inner, x, filled(b, t, x, 5));
                                     b.output(binary(b, c.outer, inner, filled(b, t, x, 3)));
                                   }});
  }
}

void add_selections(Cases& cases) {
  struct Read {
    int axis;
    int64_t first, count;
  };
  for (Read read : {Read{0, 0, 2}, Read{0, 1, 1}, Read{1, 0, 4}, Read{1, 2, 2}}) {
    cases.emplace("first-of-sort",
                  RuleCase{{DType::kFloat32, DType::kInt8}, [=](GraphBuilder& b, DType t) {
                             IrNode order = b.sort_indices(input(b, t, {5, 9}), read.axis, true);
                             b.output(b.slice(order, read.axis, read.first, read.count));
                           }});
  }
  struct Line {
    int64_t length, kept;
  };
  // Keys of 8 bits, so that many are equal; and candidates that are selected from in parts, too.
  for (auto [length, kept] : std::vector<Line>{{4800, 20}, {20'480, 300}}) {
    for (bool descending : {true, false}) {
      cases.emplace("selection-by-parts",
                    RuleCase{{DType::kFloat32, DType::kInt8},
                             [=, length = length, kept = kept](GraphBuilder& b, DType t) {
                               IrNode x = input(b, t, {2, length});
                               b.output(b.slice(b.sort_indices(x, 1, descending), 1, 0, kept));
                             }});
    }
  }
}

void add_scans(Cases& cases) {
  for (int k = 0; k < common::kScanOpCount; ++k) {
    auto op = static_cast<ScanOp>(k);
    cases.emplace(
        common::cat(common::scan_name(op), "-of-one"),
        RuleCase{op == ScanOp::kLogSumExp ? kFloats : kNumbers, [op](GraphBuilder& b, DType t) {
                   b.output(b.scan(op, input(b, t, {s0, 1, 3}), 1));
                 }});
  }
  cases.emplace("cumsum-of-ones",
                RuleCase{{DType::kInt64}, [](GraphBuilder& b, DType t) {
                           IrNode x = input(b, t);
                           for (int axis : {0, 1}) {
                             b.output(b.scan(ScanOp::kSum, filled(b, t, x, 1), axis));
                           }
                         }});
}

}  // namespace

Cases rule_cases() {
  Cases cases;
  add_with_constants(cases);
  add_with_self(cases);
  add_algebra(cases);
  add_strength(cases);
  add_constant_chains(cases);
  add_scans(cases);
  add_selections(cases);
  add_movement_cases(cases);
  add_contraction_cases(cases);
  add_row_cases(cases);
  add_fourier_cases(cases);
  add_layout_cases(cases);
  add_windows_cases(cases);
  add_positions_cases(cases);
  add_routing_cases(cases);
  return cases;
}

}  // namespace coordinator::rules_testing
