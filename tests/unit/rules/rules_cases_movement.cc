// Movement: broadcasts, casts, views and gathers.
#include "common/base/cat.h"
#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

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

// Parts of what was laid side by side; the middle part of three lies behind two choices.
void add_parts_of_wholes(Cases& cases) {
  for (int64_t part : {0, 1, 2}) {
    cases.emplace("view-of-choice", RuleCase{kNumbers, [part](GraphBuilder& b, DType t) {
                                               IrNode x = input(b, t, {s0, 1});
                                               IrNode y = input(b, t, {s0, 1});
                                               IrNode z = input(b, t, {s0, 2});
                                               IrNode whole = b.concat({x, y, z}, 1);
                                               b.output(b.slice(whole, 1, part, 1));
                                             }});
  }
}

// x[k:], then x[:k], as a roll and as a rotary embedding has them; behind two axes that are one.
void add_rotations(Cases& cases) {
  for (int64_t cut : {1, 2, 4}) {
    cases.emplace("halves-in-other-order", RuleCase{kNumbers, [cut](GraphBuilder& b, DType t) {
                                                      IrNode x = input(b, t);
                                                      IrNode low = b.slice(x, 1, 0, cut);
                                                      IrNode high = b.slice(x, 1, cut, 6 - cut);
                                                      b.output(b.concat({high, low}, 1));
                                                    }});
    cases.emplace("halves-in-other-order",
                  RuleCase{kFloats, [cut](GraphBuilder& b, DType t) {
                             IrNode x = b.reshape(input(b, t, {s0, 12}), {s0, 2, 6});
                             IrNode low = b.slice(x, 2, 0, cut);
                             IrNode high = unary(b, UnaryOp::kNeg, b.slice(x, 2, cut, 6 - cut));
                             b.output(b.concat({high, low}, 2));
                           }});
  }
}

void add_movement(Cases& cases) {
  add_parts_of_wholes(cases);
  add_rotations(cases);
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

}  // namespace

void add_movement_cases(Cases& cases) {
  add_before_broadcasts(cases);
  add_movement(cases);
}

}  // namespace coordinator::rules_testing
