#include "rules_cases.h"

#include "common/base/cat.h"

namespace coordinator::rules_testing {
namespace {

using common::BinaryOp;
using common::Coordinate;
using common::DType;
using common::Expr;
using common::GraphBuilder;
using common::InputKind;
using common::Op;
using common::ReduceOp;
using common::ScanOp;
using common::Shape;
using common::UnaryOp;
using common::View;
using IrNode = common::NodeId;
using Cases = std::multimap<std::string, RuleCase>;

const std::vector<DType> kFloats{DType::kFloat32, DType::kFloat64};
const std::vector<DType> kIntegers{DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};
const std::vector<DType> kNumbers{DType::kFloat32, DType::kFloat64, DType::kInt64,
                                  DType::kInt32,   DType::kInt8,    DType::kUint8};
const std::vector<DType> kBool{DType::kBool};

const Expr s0 = Expr::symbol(0);

IrNode input(GraphBuilder& b, DType dtype, Shape shape = {s0, 6}) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "x");
}
// Views are composed by the builder; this one stays as it is.
IrNode raw_view(GraphBuilder& b, IrNode x, View view) {
  Shape shape = view.shape;
  return b.raw({Op::kView, b.dtype(x), shape, {x}, common::ViewAttr{std::move(view)}});
}
IrNode spread(GraphBuilder& b, IrNode x, Shape shape) {
  return raw_view(b, x, *common::view_expand(b.shape(x), shape));
}
// Of the shape of `like`. (Shapes are copied: the builder moves its nodes as it grows.)
IrNode filled(GraphBuilder& b, DType dtype, IrNode like, double value) {
  Shape shape = b.shape(like);
  return b.full(dtype, shape, value);
}
// Without the builder's own simplifications.
IrNode unary(GraphBuilder& b, UnaryOp op, IrNode x) {
  bool to_bool = op == UnaryOp::kIsNan || op == UnaryOp::kIsInf;
  return b.raw(
      {Op::kUnary, to_bool ? DType::kBool : b.dtype(x), b.shape(x), {x}, common::UnaryAttr{op}});
}
IrNode binary(GraphBuilder& b, BinaryOp op, IrNode x, IrNode y) {
  DType dtype = common::is_comparison(op) ? DType::kBool : b.dtype(x);
  return b.raw({Op::kBinary, dtype, b.shape(x), {x, y}, common::BinaryAttr{op}});
}
IrNode select(GraphBuilder& b, IrNode c, IrNode x, IrNode y) {
  return b.raw({Op::kSelect, b.dtype(x), b.shape(x), {c, x, y}, {}});
}

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

bool on_floats_only(UnaryOp op) { return op > UnaryOp::kNot; }
bool on_whole_numbers_only(BinaryOp op) { return op >= BinaryOp::kAnd && op <= BinaryOp::kShr; }
bool on_floats_only(BinaryOp op) {
  return op == BinaryOp::kAtan2 || op == BinaryOp::kCopysign || op == BinaryOp::kHypot ||
         op == BinaryOp::kNextafter;
}

void add_before_broadcasts(Cases& cases) {
  for (int k = 0; k < common::kUnaryOpCount; ++k) {
    auto op = static_cast<UnaryOp>(k);
    std::vector<DType> dtypes = on_floats_only(op) ? kFloats : kNumbers;
    if (op == UnaryOp::kNot) dtypes = {DType::kBool, DType::kInt32};
    cases.emplace(common::cat(common::unary_name(op), "-before-broadcast"),
                  RuleCase{dtypes, [op](GraphBuilder& b, DType t) {
                             IrNode x = spread(b, input(b, t, {s0, 1}), {3, s0, 5});
                             b.output(unary(b, op, x));
                           }});
  }
  for (int k = 0; k < common::kBinaryOpCount; ++k) {
    auto op = static_cast<BinaryOp>(k);
    std::vector<DType> dtypes = on_floats_only(op) ? kFloats : kNumbers;
    if (on_whole_numbers_only(op)) dtypes = kIntegers;
    std::string rule = common::cat(common::binary_name(op), "-before-broadcast-of-both");
    cases.emplace(rule, RuleCase{dtypes, [op](GraphBuilder& b, DType t) {
                                   Shape to{3, s0, 5};
                                   IrNode x = input(b, t, {s0, 1}), y = input(b, t, {s0, 1});
                                   b.output(binary(b, op, spread(b, x, to), spread(b, y, to)));
                                 }});
    for (bool left : {false, true}) {
      cases.emplace(rule, RuleCase{dtypes, [op, left](GraphBuilder& b, DType t) {
                                     Shape to{3, s0, 5};
                                     IrNode x = spread(b, input(b, t, {s0, 1}), to);
                                     IrNode y = spread(b, input(b, t, {}), to);
                                     b.output(left ? binary(b, op, y, x) : binary(b, op, x, y));
                                   }});
    }
  }
  cases.emplace("cast-before-broadcast",
                RuleCase{kNumbers, [](GraphBuilder& b, DType t) {
                           b.output(b.raw({Op::kCast,
                                           DType::kFloat32,
                                           {3, s0, 5},
                                           {spread(b, input(b, t, {s0, 1}), {3, s0, 5})},
                                           {}}));
                           b.output(b.raw({Op::kCast,
                                           DType::kInt16,
                                           {3, s0, 5},
                                           {spread(b, input(b, t, {s0, 1}), {3, s0, 5})},
                                           {}}));
                         }});
}

void add_movement(Cases& cases) {
  // Every cast after every cast.
  cases.emplace(
      "cast-cast",
      RuleCase{
          {DType::kFloat32, DType::kBfloat16, DType::kFloat16, DType::kInt32, DType::kUint8,
           DType::kInt8, DType::kInt16, DType::kBool},
          [](GraphBuilder& b, DType t) {
            IrNode x = input(b, t);
            for (DType via : {DType::kFloat64, DType::kFloat32, DType::kInt64, DType::kInt32}) {
              for (DType to : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kInt64,
                               DType::kInt32, DType::kInt8, DType::kUint8, DType::kBool}) {
                IrNode inner = b.raw({Op::kCast, via, b.shape(x), {x}, {}});
                b.output(b.raw({Op::kCast, to, b.shape(x), {inner}, {}}));
              }
            }
          }});
  cases.emplace(
      "view-view",
      RuleCase{kNumbers, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t);
                 IrNode padded = raw_view(b, x, common::view_pad(b.shape(x), 1, 2, 1, 3));
                 std::vector<int> turn{1, 0};
                 IrNode turned = raw_view(b, padded, common::view_permute(b.shape(padded), turn));
                 b.output(raw_view(b, turned, common::view_slice(b.shape(turned), 0, 1, 4, 2)));
               }});
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin,
                      ReduceOp::kAny, ReduceOp::kAll}) {
    bool logical = op == ReduceOp::kAny || op == ReduceOp::kAll;
    cases.emplace(common::cat("reduce-one-by-", common::reduce_name(op)),
                  RuleCase{logical ? kBool : kNumbers, [op](GraphBuilder& b, DType t) {
                             b.output(b.reduce(op, input(b, t, {s0, 1, 5, 1}), {1, 3}));
                           }});
  }
  cases.emplace(
      "iota-of-one",
      RuleCase{{DType::kInt64, DType::kInt32, DType::kFloat32}, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t);
                 b.output(binary(b, BinaryOp::kAdd, x, spread(b, b.iota(t, 1), {s0, 6})));
               }});
  cases.emplace("gather-at-iota",
                RuleCase{kNumbers, [](GraphBuilder& b, DType t) {
                           IrNode x = input(b, t, {9, 4});
                           IrNode at = b.slice(b.iota(DType::kInt64, 8), 0, 2, 5);
                           b.output(b.gather(x, {b.unsqueeze(at, 1)}, {5, 4},
                                             {Coordinate{0, {}}, Coordinate{-1, Expr::index(1)}}));
                           // Outside for some sizes: must stay a gather.
                           IrNode beyond = b.slice(b.iota(DType::kInt64, 20), 0, 2, 9);
                           b.output(b.gather(x, {b.unsqueeze(beyond, 1)}, {9, 4},
                                             {Coordinate{0, {}}, Coordinate{-1, Expr::index(1)}}));
                         }});
  cases.emplace(
      "gather-of-iota",
      RuleCase{{DType::kInt64}, [](GraphBuilder& b, DType t) {
                 IrNode at = binary(b, BinaryOp::kSub, input(b, t), b.full_int(t, {s0, 6}, 2));
                 b.output(b.gather(b.iota(t, 3), {at}, {s0, 6}, {Coordinate{0, {}}}));
                 b.output(b.gather(b.iota(DType::kFloat32, 1), {at}, {s0, 6}, {Coordinate{0, {}}}));
               }});
  cases.emplace(
      "cast-after-gather",
      RuleCase{{DType::kBfloat16, DType::kInt8, DType::kFloat64}, [](GraphBuilder& b, DType t) {
                 IrNode x = b.cast(input(b, t, {7, 4}), DType::kFloat32);
                 IrNode at = input(b, DType::kInt64, {s0, 1});
                 b.output(b.gather(x, {at}, {s0, 4},
                                   {Coordinate{0, {}}, Coordinate{-1, Expr::index(1)}}));
               }});
}

IrNode weight(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kWeight, dtype, std::move(shape), "w");
}

// Projections of different widths, with the weights on either side.
void add_packing(Cases& cases) {
  for (bool is_left : {true, false}) {
    cases.emplace("pack-siblings", RuleCase{kFloats, [is_left](GraphBuilder& b, DType t) {
                                              IrNode x = input(b, t, {s0, 6});
                                              for (int64_t width : {4, 2, 3}) {
                                                IrNode w = weight(b, t, {width, 6});
                                                b.output(is_left
                                                             ? b.matmul(x, b.permute(w, {1, 0}))
                                                             : b.matmul(w, b.permute(x, {1, 0})));
                                              }
                                            }});
  }
  // Batches of weights.
  cases.emplace("pack-siblings", RuleCase{{DType::kFloat32}, [](GraphBuilder& b, DType t) {
                                            IrNode x = input(b, t, {3, s0, 6});
                                            for (int64_t width : {4, 4, 1})
                                              b.output(b.matmul(x, weight(b, t, {3, 6, width})));
                                          }});
}

// Scales and shifts that depend on weights alone, behind and before a product.
void add_folding(Cases& cases) {
  auto product = [](GraphBuilder& b, DType t) {
    return b.matmul(input(b, t, {s0, 6}), b.permute(weight(b, t, {5, 6}), {1, 0}));
  };
  auto per_column = [](GraphBuilder& b, DType t) { return spread(b, weight(b, t, {5}), {s0, 5}); };
  cases.emplace("scale-into-weight",
                RuleCase{kFloats, [=](GraphBuilder& b, DType t) {
                           b.output(binary(b, BinaryOp::kMul, product(b, t), per_column(b, t)));
                         }});
  // By heads of two columns each.
  cases.emplace(
      "scale-into-weight",
      RuleCase{
          kFloats, [](GraphBuilder& b, DType t) {
            IrNode x = input(b, t, {s0, 6}), w = weight(b, t, {8, 6});
            IrNode heads = b.reshape(b.matmul(x, b.permute(w, {1, 0})), {s0, 4, 2});
            b.output(binary(b, BinaryOp::kMul, heads, spread(b, weight(b, t, {4, 1}), {s0, 4, 2})));
          }});
  // (x w + b - m) r g + beta, as batch norm has it.
  cases.emplace("scale-into-weight",
                RuleCase{kFloats, [=](GraphBuilder& b, DType t) {
                           IrNode x = binary(b, BinaryOp::kAdd, product(b, t), per_column(b, t));
                           x = binary(b, BinaryOp::kSub, x, per_column(b, t));
                           x = binary(b, BinaryOp::kMul, x, per_column(b, t));
                           x = binary(b, BinaryOp::kMul, per_column(b, t), x);
                           b.output(binary(b, BinaryOp::kAdd, x, per_column(b, t)));
                         }});
  cases.emplace("scale-into-weight",
                RuleCase{kFloats, [=](GraphBuilder& b, DType t) {
                           IrNode x = binary(b, BinaryOp::kMul, product(b, t), per_column(b, t));
                           b.output(binary(b, BinaryOp::kSub, x, per_column(b, t)));
                         }});
  for (bool flattened : {false, true}) {
    cases.emplace(
        "scale-across-contraction",
        RuleCase{kFloats, [flattened](GraphBuilder& b, DType t) {
                   IrNode x = input(b, t, {2, s0, 6});
                   x = binary(b, BinaryOp::kMul, x, spread(b, weight(b, t, {6}), {2, s0, 6}));
                   if (flattened) x = b.reshape(x, {2 * s0, 6});
                   b.output(b.matmul(x, b.permute(weight(b, t, {5, 6}), {1, 0})));
                 }});
  }
}

void add_contraction(Cases& cases) {
  auto product = [](int layout) {
    return RuleCase{kFloats, [layout](GraphBuilder& b, DType t) {
                      bool turn_a = (layout & 1) != 0, turn_b = (layout & 2) != 0;
                      bool one_row = (layout & 4) != 0;
                      Expr rows = one_row ? Expr(1) : s0;
                      IrNode x = input(b, t, turn_a ? Shape{2, 8, rows} : Shape{2, rows, 8});
                      IrNode w = input(b, t, turn_b ? Shape{4, 8} : Shape{8, 4});
                      b.output(b.matmul(turn_a ? b.permute(x, {0, 2, 1}) : x,
                                        turn_b ? b.permute(w, {1, 0}) : w));
                    }};
  };
  for (int layout = 0; layout < 8; ++layout) {
    cases.emplace("sum-of-products", product(layout));
    // The rows of two turned matrices make no single row axis.
    if (layout != 1 && layout != 3) cases.emplace("contract-by-library", product(layout));
    if (layout < 4) cases.emplace("contract-by-tiles", product(layout));
  }
  // A convolution over one image, with padding, stride and groups.
  cases.emplace(
      "sum-of-products",
      RuleCase{
          kFloats, [](GraphBuilder& b, DType t) {
            IrNode x = b.pad(input(b, t, {1, 6, s0, 5}), 3, 1, 1);
            IrNode windows = b.view(b.view(x, common::view_unfold(b.shape(x), 3, 3, 3, 2)),
                                    common::View{{1, 2, 4, s0, 3, 3, 3},
                                                 {0, Expr::index(1) * 3 + Expr::index(5),
                                                  Expr::index(3), Expr::index(4), Expr::index(6)},
                                                 {},
                                                 0});
            IrNode w = b.view(
                input(b, t, {8, 3, 3}),
                common::View{{1, 2, 4, s0, 3, 3, 3},
                             {Expr::index(1) * 4 + Expr::index(2), Expr::index(5), Expr::index(6)},
                             {},
                             0});
            b.output(b.reduce(ReduceOp::kSum, binary(b, BinaryOp::kMul, windows, w), {5, 6}));
          }});
  for (bool turned : {false, true}) {
    for (Expr rows : {Expr(1), s0}) {
      cases.emplace(
          "grouped-heads",
          RuleCase{
              kFloats, [turned, rows](GraphBuilder& b, DType t) {
                IrNode q = input(b, t, {1, 6, rows, 4});
                IrNode k = input(b, t, {1, 2, 5, 4});
                // As repeat_kv expands it.
                IrNode all = b.reshape(b.expand(b.unsqueeze(k, 2), {1, 2, 3, 5, 4}), {1, 6, 5, 4});
                IrNode kt = b.permute(all, {0, 1, 3, 2});
                b.output(turned ? b.matmul(all, b.permute(q, {0, 1, 3, 2})) : b.matmul(q, kt));
              }});
    }
  }
  add_folding(cases);
  add_packing(cases);
  for (int side = 0; side < 3; ++side) {
    cases.emplace("scale-after-contraction",
                  RuleCase{kFloats, [side](GraphBuilder& b, DType t) {
                             IrNode x = input(b, t, {s0, 8}), y = input(b, t, {5, 8});
                             auto scale = [&](IrNode v) {
                               return b.binary(BinaryOp::kMul, v, b.scalar(t, 0.3));
                             };
                             if (side != 1) x = scale(x);
                             if (side != 0) y = scale(y);
                             b.output(b.matmul(x, b.permute(y, {1, 0})));
                           }});
  }
}

void add_reassociation(Cases& cases) {
  cases.emplace(
      "scale-after-sum",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t);
                 b.output(b.reduce(ReduceOp::kSum,
                                   binary(b, BinaryOp::kMul, x, filled(b, t, x, 0.3)), {1}));
               }});
  for (int layout = 0; layout < 4; ++layout) {
    cases.emplace("matrix-chain",
                  RuleCase{kFloats, [layout](GraphBuilder& b, DType t) {
                             bool turn_b = (layout & 1) != 0, turn_c = (layout & 2) != 0;
                             IrNode x = input(b, t, {s0, 6});
                             IrNode y = input(b, t, turn_b ? Shape{4, 6} : Shape{6, 4});
                             IrNode z = input(b, t, turn_c ? Shape{7, 4} : Shape{4, 7});
                             if (turn_b) y = b.permute(y, {1, 0});
                             if (turn_c) z = b.permute(z, {1, 0});
                             b.output(b.matmul(b.matmul(x, y), z));
                           }});
  }
}

void add_softmax(Cases& cases) {
  auto on = [&](const char* rule, auto build) {
    cases.emplace(rule, RuleCase{kFloats, [build](GraphBuilder& b, DType t) {
                                   IrNode x = input(b, t, {2, s0, 5});
                                   for (int axis : {1, 2}) b.output(build(b, x, axis));
                                 }});
  };
  auto shifted = [](GraphBuilder& b, IrNode x, int axis) {
    return b.binary(BinaryOp::kSub, x, b.reduce(ReduceOp::kMax, x, {axis}, true));
  };
  auto sum = [](GraphBuilder& b, IrNode x, int axis) {
    return b.reduce(ReduceOp::kSum, x, {axis}, true);
  };
  on("softmax", [=](GraphBuilder& b, IrNode x, int axis) {
    IrNode e = b.unary(UnaryOp::kExp, shifted(b, x, axis));
    return b.binary(BinaryOp::kDiv, e, sum(b, e, axis));
  });
  on("softmax-by-inverse", [=](GraphBuilder& b, IrNode x, int axis) {
    IrNode e = b.unary(UnaryOp::kExp, shifted(b, x, axis));
    IrNode inverse = b.unary(UnaryOp::kRecip, b.reduce(ReduceOp::kSum, e, {axis}));
    return b.binary(BinaryOp::kMul, e, b.unsqueeze(inverse, axis));
  });
  on("log-softmax", [=](GraphBuilder& b, IrNode x, int axis) {
    IrNode d = shifted(b, x, axis);
    IrNode total = b.reduce(ReduceOp::kSum, b.unary(UnaryOp::kExp, d), {axis});
    return b.binary(BinaryOp::kSub, d, b.unsqueeze(b.unary(UnaryOp::kLog, total), axis));
  });
  // The logarithm taken of the row that was kept.
  on("log-softmax", [=](GraphBuilder& b, IrNode x, int axis) {
    IrNode d = shifted(b, x, axis);
    return b.binary(BinaryOp::kSub, d,
                    b.unary(UnaryOp::kLog, sum(b, b.unary(UnaryOp::kExp, d), axis)));
  });
  on("softmax-unshifted", [=](GraphBuilder& b, IrNode x, int axis) {
    IrNode e = b.unary(UnaryOp::kExp, x);
    return b.binary(BinaryOp::kDiv, e, sum(b, e, axis));
  });
  on("log-of-softmax", [=](GraphBuilder& b, IrNode x, int axis) {
    IrNode e = b.unary(UnaryOp::kExp, shifted(b, x, axis));
    return b.unary(UnaryOp::kLog, b.binary(BinaryOp::kDiv, e, sum(b, e, axis)));
  });
  on("exp-of-log-softmax", [=](GraphBuilder& b, IrNode x, int axis) {
    IrNode d = shifted(b, x, axis);
    IrNode total = b.reduce(ReduceOp::kSum, b.unary(UnaryOp::kExp, d), {axis});
    return b.unary(UnaryOp::kExp,
                   b.binary(BinaryOp::kSub, d, b.unsqueeze(b.unary(UnaryOp::kLog, total), axis)));
  });
}

void add_attention(Cases& cases) {
  // Several rows share keys and values; a single row, whose scores no tile would compute; heads
  // that share them in pairs.
  for (int form = 0; form < 3; ++form) {
    auto build = [form](GraphBuilder& b, DType t) {
      int heads = form == 2 ? 4 : 2;
      Shape repeated{heads, s0, 4};
      IrNode q = input(b, t, {heads, form == 1 ? Expr(1) : Expr(3), 4});
      IrNode k = input(b, t, {2, s0, 4});
      IrNode v = input(b, t, {2, s0, 5});
      if (form == 2) {
        View twice{repeated,
                   {common::floor_div(Expr::index(0), 2), Expr::index(1), Expr::index(2)},
                   {},
                   0};
        k = raw_view(b, k, twice);
        twice.shape[2] = 5;
        v = raw_view(b, v, twice);
      }
      IrNode scores = b.matmul(q, b.permute(k, {0, 2, 1}));
      scores = b.binary(BinaryOp::kMul, scores, b.scalar(t, 0.5));
      IrNode top = b.reduce(ReduceOp::kMax, scores, {2}, true);
      IrNode e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, scores, top));
      b.output(b.matmul(b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {2}, true)), v));
    };
    cases.emplace("attention-in-one-kernel", RuleCase{kFloats, build});
    if (form == 1) cases.emplace("scores-in-attention", RuleCase{kFloats, build});
  }
}

void add_norms(Cases& cases) {
  enum class Form { kTimesRsqrt, kRsqrtTimes, kPower, kQuotient };
  auto norm = [](Form form, bool centre, Shape shape, std::vector<int> axes) {
    return RuleCase{kFloats, [=](GraphBuilder& b, DType t) {
                      IrNode x = input(b, t, {s0, 4, 6});
                      IrNode v = b.reshape(x, shape);
                      double count = axes.size() == 2 ? 24 : shape.size() == 3 ? 6 : 12;
                      if (shape.size() == 3 && shape[2].is_constant(12)) count = 12;
                      auto mean = [&](IrNode y) {
                        return b.binary(BinaryOp::kDiv, b.reduce(ReduceOp::kSum, y, axes, true),
                                        b.scalar(t, count));
                      };
                      IrNode d = centre ? b.binary(BinaryOp::kSub, v, mean(v)) : v;
                      IrNode variance = b.binary(
                          BinaryOp::kAdd, mean(b.binary(BinaryOp::kMul, d, d)), b.scalar(t, 1e-3));
                      IrNode out = -1;
                      if (form == Form::kTimesRsqrt) {
                        out = b.binary(BinaryOp::kMul, d, b.unary(UnaryOp::kRsqrt, variance));
                      } else if (form == Form::kRsqrtTimes) {
                        out = b.binary(BinaryOp::kMul, b.unary(UnaryOp::kRsqrt, variance), d);
                      } else if (form == Form::kPower) {
                        out = b.binary(BinaryOp::kMul, d,
                                       b.binary(BinaryOp::kPow, variance, b.scalar(t, -0.5)));
                      } else {
                        out = b.binary(BinaryOp::kDiv, d, b.unary(UnaryOp::kSqrt, variance));
                      }
                      b.output(b.reshape(out, {s0, 4, 6}));
                    }};
  };
  Shape rows{s0, 4, 6};
  cases.emplace("rms-norm", norm(Form::kTimesRsqrt, false, rows, {2}));
  cases.emplace("rms-norm", norm(Form::kTimesRsqrt, false, rows, {1, 2}));
  cases.emplace("rms-norm-turned", norm(Form::kRsqrtTimes, false, rows, {2}));
  cases.emplace("rms-norm", norm(Form::kPower, false, rows, {2}));
  cases.emplace("rms-norm-by-quotient", norm(Form::kQuotient, false, rows, {2}));
  cases.emplace("layer-norm", norm(Form::kTimesRsqrt, true, rows, {2}));
  cases.emplace("layer-norm", norm(Form::kQuotient, true, rows, {1, 2}));
  // Instance norm of one image sums its batch axis too.
  cases.emplace(
      "layer-norm",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t, {1, s0, 5});
                 auto mean = [&](IrNode y) {
                   return b.binary(BinaryOp::kDiv, b.reduce(ReduceOp::kSum, y, {0, 2}, true),
                                   b.scalar(t, 5));
                 };
                 IrNode d = b.binary(BinaryOp::kSub, x, mean(x));
                 IrNode variance = b.binary(BinaryOp::kAdd, mean(b.binary(BinaryOp::kMul, d, d)),
                                            b.scalar(t, 0.5));
                 b.output(b.binary(BinaryOp::kMul, d, b.unary(UnaryOp::kRsqrt, variance)));
               }});
  // Group norm: two groups of two channels.
  cases.emplace("layer-norm", norm(Form::kTimesRsqrt, true, {s0, 2, 12}, {2}));
}

// The variance as the mean of the squares less the square of the mean.
void add_one_pass_norms(Cases& cases) {
  auto norm = [](bool lifted, bool quotient, bool turned) {
    return RuleCase{
        kFloats, [=](GraphBuilder& b, DType t) {
          IrNode x = input(b, t, {s0, 4, 6});
          auto mean = [&](IrNode y) {
            return b.binary(BinaryOp::kMul, b.reduce(ReduceOp::kSum, y, {1, 2}, true),
                            b.scalar(t, 1.0 / 24));
          };
          IrNode m = mean(x);
          IrNode v = b.binary(BinaryOp::kSub, mean(b.binary(BinaryOp::kMul, x, x)),
                              b.binary(BinaryOp::kMul, m, m));
          if (lifted) v = b.binary(BinaryOp::kMax, v, b.scalar(t, 0));
          v = b.binary(BinaryOp::kAdd, v, b.scalar(t, 0.1));
          IrNode d = b.binary(BinaryOp::kSub, x, m);
          IrNode root = b.unary(quotient ? UnaryOp::kSqrt : UnaryOp::kRsqrt, v);
          b.output(quotient ? b.binary(BinaryOp::kDiv, d, root)
                            : b.binary(BinaryOp::kMul, turned ? root : d, turned ? d : root));
        }};
  };
  cases.emplace("one-pass-norm", norm(false, false, false));
  cases.emplace("one-pass-norm", norm(true, false, false));
  cases.emplace("one-pass-norm-turned", norm(true, false, true));
  cases.emplace("one-pass-norm-by-quotient", norm(false, true, false));
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

std::multimap<std::string, RuleCase> rule_cases() {
  Cases cases;
  add_with_constants(cases);
  add_with_self(cases);
  add_algebra(cases);
  add_strength(cases);
  add_constant_chains(cases);
  add_before_broadcasts(cases);
  add_movement(cases);
  add_contraction(cases);
  add_reassociation(cases);
  add_softmax(cases);
  add_attention(cases);
  add_norms(cases);
  add_one_pass_norms(cases);
  add_scans(cases);
  add_fourier_cases(cases);
  add_layout_cases(cases);
  add_routing_cases(cases);
  return cases;
}

}  // namespace coordinator::rules_testing
