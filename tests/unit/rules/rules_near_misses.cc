// Graphs that a rule would rewrite if one of its conditions were gone. What rules make of them must
// be equal all the same; a condition without a graph here is one that nobody would miss.
#include <cmath>

#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

using NearMisses = std::vector<std::pair<std::string, RuleCase>>;

IrNode mean(GraphBuilder& b, IrNode x, const std::vector<int>& axes, double count) {
  return b.binary(BinaryOp::kDiv, b.reduce(ReduceOp::kSum, x, axes, true),
                  b.scalar(b.dtype(x), count));
}
IrNode squared(GraphBuilder& b, IrNode x) { return b.binary(BinaryOp::kMul, x, x); }
IrNode exponentials(GraphBuilder& b, IrNode x, int axis) {
  return b.unary(UnaryOp::kExp,
                 b.binary(BinaryOp::kSub, x, b.reduce(ReduceOp::kMax, x, {axis}, true)));
}

void add_constants(NearMisses& misses) {
  struct Constant {
    const char* what;
    BinaryOp op;
    double constant;
    std::vector<DType> dtypes;
  };
  for (const Constant& c : std::vector<Constant>{
           {"a bit of an integer is not the integer", BinaryOp::kAnd, 1, kIntegers},
           {"nor is it one bit", BinaryOp::kOr, 1, kIntegers},
           {"a sum with a small number is no sum with zero", BinaryOp::kAdd, 1, kNumbers},
           {"a power of five halves is no root", BinaryOp::kPow, 2.5, kFloats},
           {"a quotient by a tiny number", BinaryOp::kDiv, 1e-39, kFloats}}) {
    misses.emplace_back(c.what,
                        RuleCase{c.dtypes, [c](GraphBuilder& b, DType t) {
                                   IrNode x = input(b, t);
                                   b.output(binary(b, c.op, x, filled(b, t, x, c.constant)));
                                 }});
  }
  for (BinaryOp op :
       {BinaryOp::kEqual, BinaryOp::kNotEqual, BinaryOp::kLessEqual, BinaryOp::kSub}) {
    misses.emplace_back("NaN equals nothing, itself included",
                        RuleCase{kFloats, [op](GraphBuilder& b, DType t) {
                                   IrNode x = input(b, t);
                                   b.output(binary(b, op, x, x));
                                 }});
  }
  misses.emplace_back("offsets of short integers wrap, those of floats round",
                      RuleCase{{DType::kInt8, DType::kUint8, DType::kInt32, DType::kFloat32},
                               [](GraphBuilder& b, DType t) {
                                 IrNode x = input(b, t);
                                 IrNode far = filled(b, t, x, 100), near = filled(b, t, x, 0.1);
                                 IrNode once = binary(b, BinaryOp::kAdd, x, far);
                                 b.output(binary(b, BinaryOp::kAdd, once, far));
                                 b.output(binary(b, BinaryOp::kSub, once, near));
                               }});
  misses.emplace_back(
      "numbers so large that each product leaves the type's range",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t);
                 double huge = t == DType::kFloat32 ? 3e38 : 1.7e308;
                 b.output(b.reduce(ReduceOp::kSum,
                                   binary(b, BinaryOp::kMul, x, filled(b, t, x, huge)), {1}));
               }});
  misses.emplace_back("running sums of twos",
                      RuleCase{{DType::kInt64}, [](GraphBuilder& b, DType t) {
                                 IrNode x = input(b, t);
                                 b.output(b.scan(ScanOp::kSum, filled(b, t, x, 2), 1));
                               }});
}

void add_norms(NearMisses& misses) {
  misses.emplace_back("a power of the mean square that is no root",
                      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                 IrNode x = input(b, t);
                                 IrNode v = b.binary(BinaryOp::kAdd, mean(b, squared(b, x), {1}, 6),
                                                     b.scalar(t, 0.5));
                                 b.output(b.binary(BinaryOp::kMul, x,
                                                   b.binary(BinaryOp::kPow, v, b.scalar(t, -1.5))));
                               }});
  misses.emplace_back("centred by rows, normed by more",
                      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                 IrNode x = input(b, t, {s0, 4, 6});
                                 IrNode d = b.binary(BinaryOp::kSub, x, mean(b, x, {2}, 6));
                                 IrNode v =
                                     b.binary(BinaryOp::kAdd, mean(b, squared(b, d), {1, 2}, 24),
                                              b.scalar(t, 0.5));
                                 b.output(b.binary(BinaryOp::kMul, d, b.unary(UnaryOp::kRsqrt, v)));
                               }});
  misses.emplace_back(
      "a variance lifted above zero, and of another mean",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = input(b, t, {s0, 4, 6});
                 IrNode m = mean(b, x, {2}, 6), wide = mean(b, x, {1, 2}, 24);
                 for (IrNode other : {m, wide}) {
                   IrNode v = b.binary(BinaryOp::kSub, mean(b, squared(b, x), {2}, 6),
                                       squared(b, b.expand(other, {s0, 4, 1})));
                   v = b.binary(BinaryOp::kMax, v, b.scalar(t, other == m ? 0.7 : 0));
                   v = b.binary(BinaryOp::kAdd, v, b.scalar(t, 0.1));
                   b.output(b.binary(BinaryOp::kMul, b.binary(BinaryOp::kSub, x, m),
                                     b.unary(UnaryOp::kRsqrt, v)));
                 }
               }});
}

void add_softmax(NearMisses& misses) {
  misses.emplace_back("exponentials over the sum of others",
                      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                 IrNode x = input(b, t), y = input(b, t);
                                 IrNode sum =
                                     b.reduce(ReduceOp::kSum, exponentials(b, y, 1), {1}, true);
                                 b.output(b.binary(BinaryOp::kDiv, exponentials(b, x, 1), sum));
                                 b.output(b.binary(BinaryOp::kDiv, b.unary(UnaryOp::kExp, x), sum));
                               }});
  misses.emplace_back(
      "shifted by columns, summed by rows",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode e = exponentials(b, input(b, t, {5, 5}), 0);
                 b.output(b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {1}, true)));
               }});
  // Only probabilities may lose their rounding: other values have reasons for it.
  misses.emplace_back("a rounded operand that is no probability",
                      RuleCase{{DType::kFloat32}, [](GraphBuilder& b, DType t) {
                                 IrNode x = b.cast(b.cast(input(b, t), DType::kBfloat16), t);
                                 b.output(b.matmul(x, input(b, t, {6, 5})));
                               }});
}

void add_rotations(NearMisses& misses) {
  misses.emplace_back("halves of two tensors", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                                          IrNode x = input(b, t), y = input(b, t);
                                                          IrNode high = b.slice(x, 1, 3, 3);
                                                          IrNode low = b.slice(y, 1, 0, 3);
                                                          b.output(b.concat({high, low}, 1));
                                                        }});
  misses.emplace_back("parts of one tensor that do not follow one another",
                      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                 IrNode x = input(b, t);
                                 IrNode high = b.slice(x, 1, 2, 3), low = b.slice(x, 1, 0, 3);
                                 b.output(b.concat({high, low}, 1));
                                 b.output(b.concat({high, b.slice(x, 1, 1, 3)}, 1));
                                 b.output(b.concat({low, b.slice(x, 1, 3, 3)}, 1));
                               }});
}

void add_contractions(NearMisses& misses) {
  misses.emplace_back(
      "a sum over what no factor knows",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 Shape shape{s0, 4, 6, 3};
                 IrNode x = spread(b, b.reshape(input(b, t), {s0, 1, 6, 1}), shape);
                 IrNode y = spread(b, input(b, t, {4, 6, 1}), shape);
                 b.output(b.reduce(ReduceOp::kSum, binary(b, BinaryOp::kMul, x, y), {2, 3}));
               }});
  misses.emplace_back(
      "a weight less a product, then scaled",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode y = b.matmul(input(b, t), weight(b, t, {6, 5}));
                 y = binary(b, BinaryOp::kSub, spread(b, weight(b, t, {5}), {s0, 5}), y);
                 b.output(binary(b, BinaryOp::kMul, y, spread(b, weight(b, t, {5}), {s0, 5})));
               }});
  misses.emplace_back(
      "weights that differ along two axes",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = b.reshape(input(b, t), {s0, 1, 1, 6});
                 for (int64_t heads : {2, 3}) {
                   Shape shape{s0, heads, 4 + heads, 6};
                   IrNode w = spread(b, weight(b, t, {heads, 4 + heads, 6}), shape);
                   b.output(b.reduce(ReduceOp::kSum,
                                     binary(b, BinaryOp::kMul, spread(b, x, shape), w), {3}));
                 }
               }});
  misses.emplace_back(
      "more frequencies than points",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 constexpr int64_t kPoints = 16, kWanted = 24;
                 Shape shape{kPoints, kWanted};
                 IrNode row = b.expand(b.unsqueeze(b.iota(DType::kInt64, kPoints), 1), shape);
                 IrNode column = b.expand(b.iota(DType::kInt64, kWanted), shape);
                 IrNode turn = b.cast(b.binary(BinaryOp::kMul, row, column), DType::kFloat64);
                 IrNode step = b.scalar(DType::kFloat64, 2 * M_PI / kPoints);
                 IrNode twiddle =
                     b.cast(b.unary(UnaryOp::kCos, b.binary(BinaryOp::kMul, turn, step)), t);
                 IrNode x = b.unsqueeze(input(b, t, {s0, kPoints}), 2);
                 b.output(b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, x, twiddle), {1}));
               }});
}

// (tokens, experts): values where an expert is chosen, on top of what is given.
void add_routing(NearMisses& misses) {
  struct Routing {
    const char* what;
    ScatterMode mode;
    double base;
    bool by_columns;  // chosen among the tokens instead
  };
  for (const Routing& r :
       std::vector<Routing>{{"weights of those not chosen", ScatterMode::kAssign, 1, false},
                            {"greatest of a score and zero", ScatterMode::kMax, 0, false},
                            {"places sorted along another axis", ScatterMode::kAssign, 0, true}}) {
    misses.emplace_back(
        r.what,
        RuleCase{kFloats, [r](GraphBuilder& b, DType t) {
                   constexpr int64_t kExperts = 6;
                   IrNode scores = input(b, t, {kExperts, kExperts});
                   int axis = r.by_columns ? 0 : 1;
                   IrNode places = b.slice(b.sort_indices(scores, axis, true), 1, 0, 2);
                   IrNode values = input(b, t, {kExperts, 2});
                   IrNode w =
                       b.scatter(r.mode, b.full(t, {kExperts, kExperts}, r.base), values, {places},
                                 {Coordinate{-1, Expr::index(0)}, Coordinate{0, {}}});
                   IrNode x = b.unary(UnaryOp::kTanh, input(b, t, {kExperts, kExperts, 3}));
                   b.output(b.reduce(
                       ReduceOp::kSum,
                       b.binary(BinaryOp::kMul, b.unsqueeze(b.permute(w, {1, 0}), 2), x), {0}));
                 }});
  }
}

// Windows of three places of an axis of five.
void add_borders(NearMisses& misses) {
  struct Border {
    const char* what;
    Expr position;
    std::vector<common::Validity> valid;
  };
  const Expr place = Expr::index(0) + Expr::index(1);
  const Expr enlarged = common::floor_div(place - Expr(1), Expr(2));
  const Expr backwards = Expr::index(0) - Expr::index(1);
  for (const Border& border : std::vector<Border>{
           {"a border that moves with a size", common::mod(place + s0, Expr(5)), {}},
           {"an axis and a tap that are no sum", common::max(Expr::index(0), Expr::index(1)), {}},
           {"a tap that runs backwards", common::max(backwards, -backwards), {}},
           {"windows that do not say where their border is",
            enlarged,
            {{Expr(2) * Expr::index(0) + Expr::index(1) - Expr(1), Expr(8)}}}}) {
    misses.emplace_back(
        border.what, RuleCase{kFloats, [border](GraphBuilder& b, DType t) {
                                IrNode x = b.unary(UnaryOp::kTanh, input(b, t, {5, 6}));
                                View windows{{5, 3, 6}, {border.position, Expr::index(2)}, {}, 0};
                                windows.valid = border.valid;
                                b.output(b.reduce(ReduceOp::kSum, raw_view(b, x, windows), {1}));
                              }});
  }
}

}  // namespace

std::vector<std::pair<std::string, RuleCase>> near_misses() {
  NearMisses misses;
  add_constants(misses);
  add_norms(misses);
  add_softmax(misses);
  add_rotations(misses);
  add_contractions(misses);
  add_routing(misses);
  add_borders(misses);
  add_windows_misses(misses);
  return misses;
}

}  // namespace coordinator::rules_testing
