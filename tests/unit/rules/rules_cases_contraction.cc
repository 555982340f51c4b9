// Contractions: how sums of products are found, lowered, packed, scaled and put in another order.
#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

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

// Siblings with biases, as they are and seen as rows of a batch.
void add_biased_siblings(Cases& cases) {
  for (bool is_batch : {false, true}) {
    cases.emplace("pack-siblings", RuleCase{kFloats, [is_batch](GraphBuilder& b, DType t) {
                                              IrNode x = input(b, t, {s0, 6});
                                              for (int64_t width : {4, 2, 3}) {
                                                IrNode w = weight(b, t, {width, 6});
                                                IrNode y = b.matmul(x, b.permute(w, {1, 0}));
                                                Shape shape{s0, width};
                                                if (is_batch) {
                                                  shape.insert(shape.begin(), Expr(1));
                                                  y = b.reshape(y, shape);
                                                }
                                                IrNode bias =
                                                    spread(b, weight(b, t, {width}), shape);
                                                b.output(binary(b, BinaryOp::kAdd, y, bias));
                                              }
                                            }});
  }
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
  // Channels last, a border, and tiles of which the last one reaches beyond the image.
  cases.emplace(
      "contract-by-minimal-filters",
      RuleCase{
          {DType::kFloat32}, [](GraphBuilder& b, DType t) {
            IrNode x = input(b, t, {2, 5, 9, 16});
            IrNode w = weight(b, t, {16, 3, 3, 16});
            Expr row = Expr::index(1) + Expr::index(4) - Expr(1);
            Expr column = Expr::index(2) + Expr::index(5) - Expr(1);
            Shape product{2, 5, 9, 16, 3, 3, 16};
            View windows{
                product, {Expr::index(0), row, column, Expr::index(6)}, {{row, 5}, {column, 9}}, 0};
            View filter{
                product, {Expr::index(3), Expr::index(4), Expr::index(5), Expr::index(6)}, {}, 0};
            b.output(b.reduce(ReduceOp::kSum,
                              binary(b, BinaryOp::kMul, b.view(x, windows), b.view(w, filter)),
                              {4, 5, 6}));
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
  add_biased_siblings(cases);
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
  // Rows times vectors, of which the scale leaves products that the graph has not.
  cases.emplace("contract-by-sums", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                               IrNode x = input(b, t, {3, 1, 8});
                                               x = b.binary(BinaryOp::kMul, x, b.scalar(t, 0.3));
                                               b.output(b.matmul(x, input(b, t, {3, 8, s0})));
                                             }});
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

}  // namespace

void add_contraction_cases(Cases& cases) {
  add_contraction(cases);
  add_reassociation(cases);
}

}  // namespace coordinator::rules_testing
