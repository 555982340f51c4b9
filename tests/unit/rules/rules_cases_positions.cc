// Whole numbers whose range or order is known: positions, sorted orders and counts in bins.
#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

constexpr int64_t kBins = 6, kChosen = 2;
const Expr kRows = kChosen * s0;

IrNode line(GraphBuilder& b, IrNode data, IrNode places) {
  Shape shape = b.shape(places);
  return b.gather(data, {places}, shape, {Coordinate{0, {}}});
}

// (2 s0): numbers below six, chosen by the scores of each row.
IrNode chosen(GraphBuilder& b, DType t) {
  IrNode order = b.sort_indices(input(b, t, {s0, kBins}), 1, true);
  return b.reshape(b.slice(order, 1, 0, kChosen), {kRows});
}

void add_ranges(Cases& cases) {
  auto compare = [&](const char* rule, BinaryOp op, bool turned, double number) {
    cases.emplace(rule, RuleCase{kFloats, [=](GraphBuilder& b, DType t) {
                                   IrNode x = b.sort_indices(input(b, t), 1, false);
                                   IrNode y = filled(b, DType::kInt64, x, number);
                                   b.output(turned ? binary(b, op, y, x) : binary(b, op, x, y));
                                 }});
  };
  compare("less-in-range", BinaryOp::kLess, false, 6);
  compare("less-in-range", BinaryOp::kLess, false, 0);
  compare("less_equal-in-range", BinaryOp::kLessEqual, true, 6);
  compare("less_equal-in-range", BinaryOp::kLessEqual, false, 5);
  compare("equal-in-range", BinaryOp::kEqual, false, -1);
  compare("not_equal-in-range", BinaryOp::kNotEqual, true, 6);
  compare("min-in-range", BinaryOp::kMin, false, 5);
  compare("min-in-range", BinaryOp::kMin, true, 0);
  compare("max-in-range", BinaryOp::kMax, false, 0);
  compare("max-in-range", BinaryOp::kMax, true, 5);
  cases.emplace("cast-cast-in-range", RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                                                 IrNode x = b.sort_indices(input(b, t), 1, false);
                                                 b.output(b.cast(b.cast(x, DType::kBfloat16), t));
                                                 b.output(b.cast(b.cast(x, t), DType::kInt64));
                                               }});
}

void add_bins(Cases& cases) {
  cases.emplace(
      "bin-of-whole-number",
      RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                 IrNode x = b.cast(b.sort_indices(input(b, t), 1, false), t);
                 IrNode scaled =
                     binary(b, BinaryOp::kDiv, binary(b, BinaryOp::kMul, x, filled(b, t, x, kBins)),
                            filled(b, t, x, kBins - 1));
                 IrNode bin = b.cast(b.unary(UnaryOp::kFloor, scaled), DType::kInt64);
                 b.output(binary(b, BinaryOp::kMin, bin, filled(b, DType::kInt64, x, kBins - 1)));
               }});
  // Where each number's bin begins, as routers tell which expert a row of the sorted ones is for.
  cases.emplace("number-at-position",
                RuleCase{kFloats, [](GraphBuilder& b, DType t) {
                           IrNode numbers = chosen(b, t);
                           IrNode sorted = line(b, numbers, b.sort_indices(numbers, 0, false));
                           IrNode counts =
                               b.scatter(ScatterMode::kAdd, b.full(t, {kBins}, 0),
                                         b.full(t, {kRows}, 1), {sorted}, {Coordinate{0, {}}});
                           IrNode ends = b.scan(ScanOp::kSum, b.cast(counts, DType::kInt32), 0);
                           IrNode position = b.cast(b.iota(DType::kInt64, kRows), DType::kInt32);
                           IrNode before = b.binary(BinaryOp::kLessEqual, b.unsqueeze(ends, 0),
                                                    b.unsqueeze(position, 1));
                           b.output(b.reduce(ReduceOp::kSum, b.cast(before, DType::kInt64), {1}));
                         }});
}

void add_orders(Cases& cases) {
  auto undone = [](GraphBuilder& b, DType t) {
    IrNode order = b.sort_indices(chosen(b, t), 0, false);
    IrNode back = b.scatter(ScatterMode::kAssign, b.full(DType::kInt64, {kRows}, 0),
                            b.iota(DType::kInt64, kRows), {order}, {Coordinate{0, {}}});
    auto rows = [&](IrNode data, IrNode places) {
      return b.gather(data, {b.unsqueeze(places, 1)}, {kRows, 3},
                      {Coordinate{0, {}}, Coordinate{-1, Expr::index(1)}});
    };
    // Each token's row for each of its choices, worked on in the order of the choices.
    IrNode token = b.binary(BinaryOp::kFloorDiv, order, b.scalar_int(DType::kInt64, kChosen));
    IrNode x = rows(input(b, t, {s0, 3}), token);
    b.output(rows(b.unary(UnaryOp::kTanh, x), back));
    b.output(line(b, order, back));
  };
  cases.emplace("order-undone", RuleCase{kFloats, undone});
  cases.emplace("gather-of-gather", RuleCase{kFloats, undone});
  cases.emplace("gather-of-uniform", RuleCase{kNumbers, [](GraphBuilder& b, DType t) {
                                                IrNode places = input(b, DType::kInt64, {s0});
                                                b.output(line(b, b.full(t, {kBins}, 3), places));
                                              }});
}

}  // namespace

void add_positions_cases(Cases& cases) {
  add_ranges(cases);
  add_bins(cases);
  add_orders(cases);
}

}  // namespace coordinator::rules_testing
