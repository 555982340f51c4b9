// What works on rows: softmax, the attention around it, and norms in their spellings.
#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

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

// Probabilities that a model rounds before their product, which is computed in float32; heads are
// told apart before the rounding, or between it and the product.
void add_rounded_probabilities(Cases& cases) {
  for (DType half : {DType::kBfloat16, DType::kFloat16}) {
    for (bool turned : {false, true}) {
      cases.emplace(
          "probabilities-stay-wide",
          RuleCase{{DType::kFloat32}, [half, turned](GraphBuilder& b, DType t) {
                     IrNode scores = input(b, t, {4, 3, s0});
                     IrNode top = b.reduce(ReduceOp::kMax, scores, {2}, true);
                     IrNode e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, scores, top));
                     IrNode p = b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {2}, true));
                     p = b.cast(p, half);
                     if (turned) p = b.reshape(p, {2, 6, s0});
                     p = b.cast(p, t);
                     Expr heads = turned ? 2 : 4;
                     b.output(b.matmul(p, input(b, t, {heads, s0, 5})));
                   }});
    }
  }
}

// Probabilities are what is left when the sums divide the result instead.
void add_late_normalisation(Cases& cases) {
  enum class Form { kQuotient, kInverse, kInverseFirst };
  auto attention = [](Form form, bool batch) {
    return RuleCase{
        kFloats, [form, batch](GraphBuilder& b, DType t) {
          Expr lead = batch ? Expr(2) : Expr(1);
          IrNode q = input(b, t, {lead, 3, 4, 5});
          IrNode k = input(b, t, {lead, 3, s0, 5});
          IrNode v = input(b, t, {lead, 3, s0, 6});
          IrNode scores = b.matmul(q, b.permute(k, {0, 1, 3, 2}));
          IrNode top = b.reduce(ReduceOp::kMax, scores, {3}, true);
          IrNode e = b.unary(UnaryOp::kExp, b.binary(BinaryOp::kSub, scores, top));
          IrNode sums = b.reduce(ReduceOp::kSum, e, {3}, true);
          // As batched products of three axes, which is how they are exported.
          IrNode flat = b.matmul(b.reshape(e, {3 * lead, 4, s0}), b.reshape(v, {3 * lead, s0, 6}));
          IrNode out = b.reshape(flat, {lead, 3, 4, 6});
          if (form == Form::kQuotient) {
            b.output(b.binary(BinaryOp::kDiv, out, sums));
          } else {
            IrNode inverse = b.unary(UnaryOp::kRecip, sums);
            bool first = form == Form::kInverseFirst;
            b.output(b.binary(BinaryOp::kMul, first ? inverse : out, first ? out : inverse));
          }
        }};
  };
  for (bool batch : {false, true}) {
    cases.emplace("normalised-before-product", attention(Form::kQuotient, batch));
    cases.emplace("normalised-before-product-by-inverse", attention(Form::kInverse, batch));
    cases.emplace("normalised-before-product-by-inverse-turned",
                  attention(Form::kInverseFirst, batch));
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
  // Over the leading axis, and over all but the channels, as a batch is normalised in training.
  for (bool all : {false, true}) {
    for (bool centre : {false, true}) {
      cases.emplace(
          "rms-norm",
          RuleCase{kFloats, [all, centre](GraphBuilder& b, DType t) {
                     IrNode x = input(b, t, {4, s0, 3});
                     if (all) x = input(b, t, {4, 5, s0, 3});
                     std::vector<int> axes = all ? std::vector<int>{0, 1, 3} : std::vector<int>{0};
                     auto mean = [&](IrNode y) {
                       return b.binary(BinaryOp::kDiv, b.reduce(ReduceOp::kSum, y, axes, true),
                                       b.scalar(t, all ? 60 : 4));
                     };
                     IrNode d = centre ? b.binary(BinaryOp::kSub, x, mean(x)) : x;
                     IrNode variance = b.binary(
                         BinaryOp::kAdd, mean(b.binary(BinaryOp::kMul, d, d)), b.scalar(t, 0.5));
                     b.output(b.binary(BinaryOp::kMul, d, b.unary(UnaryOp::kRsqrt, variance)));
                   }});
    }
  }
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

}  // namespace

void add_row_cases(Cases& cases) {
  add_softmax(cases);
  add_attention(cases);
  add_rounded_probabilities(cases);
  add_late_normalisation(cases);
  add_norms(cases);
  add_one_pass_norms(cases);
}

}  // namespace coordinator::rules_testing
