// How kernels are walked as loops: if these fail, predictions count work that no kernel does, or
// miss what a schedule costs.
#include <gtest/gtest.h>

#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/builder.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::ReduceOp;
using common::Shape;
using common::Template;
using common::UnaryOp;
using IrNode = common::NodeId;

IrNode input(GraphBuilder& b, Shape shape) {
  return b.input(InputKind::kUser, DType::kFloat32, std::move(shape), "x");
}

Graph finish(GraphBuilder& b, IrNode output) {
  b.output(output);
  return b.finish();
}

common::KernelProfile profile_of(const Graph& body) {
  return common::profile_kernel({Template::kLoops, {}, body}, {});
}

double predicted(const Graph& body, const common::Schedule& schedule) {
  return common::predict_ns({Template::kLoops, schedule, body}, {}, common::device_terms({"cpu"}));
}

// Rows of 32 with an operand that all share, so that rows are loops of their own.
Graph exponentials_of_rows() {
  GraphBuilder b;
  IrNode x = input(b, {64, 32}), w = input(b, {32});
  return finish(b, b.unary(UnaryOp::kExp, b.binary(BinaryOp::kAdd, x, w)));
}

TEST(Profile, LoopsOverWhatLiesInOrderAreOne) {
  GraphBuilder b;
  Graph body = finish(b, b.unary(UnaryOp::kExp, input(b, {64, 32})));
  common::KernelProfile profile = profile_of(body);
  ASSERT_EQ(profile.loops.size(), 1);
  EXPECT_EQ(profile.loops[0].extent, 64 * 32);
  EXPECT_EQ(profile.loops[0].runs, 1);
  profile = profile_of(exponentials_of_rows());
  ASSERT_EQ(profile.loops.size(), 1);
  EXPECT_EQ(profile.loops[0].extent, 32);
  EXPECT_EQ(profile.loops[0].runs, 64);
}

TEST(Profile, RowsShorterThanARoundOfVectorsAreComputedStepByStep) {
  Graph body = exponentials_of_rows();
  double as_compiled = predicted(body, {});
  EXPECT_LT(predicted(body, {{"unroll", 2}, {"vector", 16}}), as_compiled * 1.01);
  EXPECT_GT(predicted(body, {{"unroll", 4}, {"vector", 16}}), as_compiled * 5);
  EXPECT_GT(predicted(body, {{"vector", 4}}), as_compiled * 2);
}

TEST(Profile, SumsOfRowsAreTakenOnceARow) {
  GraphBuilder b;
  IrNode x = input(b, {64, 32});
  Graph body = finish(b, b.binary(BinaryOp::kDiv, x, b.reduce(ReduceOp::kSum, x, {1}, true)));
  EXPECT_EQ(profile_of(body).row_ops, 64 * 32);
  EXPECT_EQ(profile_of(body).row_sums, 2 * 64);  // the row's own, and the sum carried in float64
}

// However many axes are summed: the innermost loop begins and ends for each of the others' steps.
TEST(Profile, SumsOverOuterAxesEndOnceAnInnerRow) {
  GraphBuilder b;
  Graph body = finish(b, b.reduce(ReduceOp::kMax, input(b, {4, 6, 33}), {0, 2}));
  EXPECT_EQ(profile_of(body).row_sums, 4 * 6);
}

TEST(Profile, SumsOfColumnsGoSideBySide) {
  GraphBuilder b;
  Graph body = finish(b, b.reduce(ReduceOp::kSum, input(b, {32, 64}), {0}));
  common::KernelProfile profile = profile_of(body);
  EXPECT_EQ(profile.row_sums, 0);
  EXPECT_EQ(profile.row_ops, 0);
  EXPECT_EQ(profile.simple_ops, 32 * 64);
  for (const common::LoopWork& work : profile.loops) EXPECT_EQ(work.jumps, 0);
}

TEST(Profile, WhatARowAsksForTwiceIsComputedTwiceUnlessItIsKept) {
  GraphBuilder b;
  IrNode e = b.unary(UnaryOp::kExp, input(b, {64, 32}));
  Graph body = finish(b, b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {1}, true)));
  EXPECT_EQ(profile_of(body).hard_ops, 2 * 64 * 32);  // exponentials and divisions, once each
  EXPECT_GT(predicted(body, {{"stage", 0}}), predicted(body, {}) * 1.2);
}

double jumps_of(const common::KernelProfile& profile) {
  double sum = 0;
  for (const common::LoopWork& work : profile.loops) sum += work.runs * work.extent * work.jumps;
  return sum;
}

// Matrices that an index tensor chooses, read along one of their own axes.
TEST(Profile, WhatIsGatheredIsReadInItsOwnOrder) {
  auto chosen = [](bool across) {
    GraphBuilder b;
    IrNode data = input(b, {8, 16, 32});
    IrNode which = b.input(InputKind::kUser, DType::kInt64, {4}, "i");
    if (across) data = b.permute(data, {0, 2, 1});
    Shape shape{4, across ? 32 : 16, across ? 16 : 32};
    IrNode spread = b.view(which, {shape, {common::Expr::index(0)}, {}, 0});
    common::GatherAttr at{{{0, 0}, {-1, common::Expr::index(1)}, {-1, common::Expr::index(2)}}};
    IrNode rows = b.raw({common::Op::kGather, DType::kFloat32, shape, {data, spread}, at});
    b.output(rows);
    b.output(b.unary(UnaryOp::kNeg, rows));
    return profile_of(b.finish());
  };
  EXPECT_EQ(jumps_of(chosen(false)), 0);
  EXPECT_EQ(jumps_of(chosen(true)), 4 * 16 * 32);
  EXPECT_EQ(chosen(false).random_reads, 4);
}

// Side by side only what is read side by side.
TEST(Profile, SumsThatAreGatheredAreTakenOneByOne) {
  GraphBuilder b;
  IrNode sums = b.reduce(ReduceOp::kSum, input(b, {8, 16, 32}), {1});
  IrNode which = b.input(InputKind::kUser, DType::kInt64, {4}, "i");
  IrNode spread = b.view(which, {{4, 32}, {common::Expr::index(0)}, {}, 0});
  common::GatherAttr at{{{0, 0}, {-1, common::Expr::index(1)}}};
  Graph body =
      finish(b, b.raw({common::Op::kGather, DType::kFloat32, {4, 32}, {sums, spread}, at}));
  EXPECT_EQ(profile_of(body).row_ops, 4 * 16 * 32);
  EXPECT_EQ(jumps_of(profile_of(body)), 4 * 16 * 32);
}

// A line that a view makes of rows: what is read of it, in order or wherever an index says, is
// computed from its row's sum each time.
TEST(Profile, RowsBehindALineAreSummedForEachElementThatIsRead) {
  constexpr int64_t kWidth = 400, kLine = 1280, kRead = 5;
  auto exponentials = [](bool is_gathered) {
    GraphBuilder b;
    IrNode sums = b.reduce(ReduceOp::kSum, b.unary(UnaryOp::kExp, input(b, {2, kWidth})), {1});
    common::View rows{{kLine}, {common::floor_div(common::Expr::index(0), kLine / 2)}, {}, 0};
    IrNode line = b.view(sums, rows);
    IrNode places = b.input(InputKind::kUser, DType::kInt64, {kRead}, "places");
    common::GatherAttr at{{{0, 0}}};
    IrNode read = is_gathered
                      ? b.raw({common::Op::kGather, DType::kFloat32, {kRead}, {line, places}, at})
                      : b.sort_indices(line, 0, true, kRead);
    double functions = 0;
    for (const common::LoopWork& work : profile_of(finish(b, read)).loops) {
      functions += work.runs * work.extent * work.functions;
    }
    return functions;
  };
  EXPECT_EQ(exponentials(true), kRead * kWidth);
  EXPECT_EQ(exponentials(false), kLine * kWidth);
}

TEST(Profile, SoftmaxOfRowsBehindALineIsPricedForEachElement) {
  GraphBuilder b;
  IrNode x = input(b, {2, 400});
  IrNode shares =
      b.raw({common::Op::kSoftmax, DType::kFloat32, {2, 400}, {x}, common::SoftmaxAttr{1, true}});
  Graph body = finish(b, b.sort_indices(b.reshape(shares, {800}), 0, true, 5));
  EXPECT_EQ(profile_of(body).hard_ops, 800 + 800 * 400);
}

TEST(Profile, OutputsOfRowsAndOfElementsShareTheirOuterLoops) {
  GraphBuilder b;
  IrNode e = b.unary(UnaryOp::kExp, input(b, {4, 6, 33}));
  IrNode sum = b.reduce(ReduceOp::kSum, e, {2});
  b.output(b.unary(UnaryOp::kLog, b.unsqueeze(sum, 2)));
  b.output(sum);
  double steps = 0;
  for (const common::LoopWork& work : profile_of(b.finish()).loops) {
    if (work.extent == 33) steps += work.runs * work.extent * work.functions;
  }
  EXPECT_EQ(steps, 4 * 6 * 33);
}

TEST(Profile, ShortRowsAreSortedByInsertionAndLongOnesByDigits) {
  auto sorted = [](int length) {
    GraphBuilder b;
    IrNode x = input(b, {2, length});
    Graph body = finish(
        b, b.raw({common::Op::kSort, DType::kInt64, b.shape(x), {x}, common::SortAttr{1, false}}));
    return common::predict_ns({Template::kSort, {}, body}, {}, common::device_terms({"cpu"}));
  };
  EXPECT_GT(sorted(40), sorted(10) * 4);
  EXPECT_LT(sorted(400), sorted(100) * 4);
}

// On a GPU a line's threads add up the line's sums together; along another axis each adds up its
// own.
TEST(Profile, LinesShareTheSumsOfWhatTheySort) {
  auto sorted = [](int axis) {
    GraphBuilder b;
    IrNode x = input(b, {512, 512});
    if (axis >= 0) {
      x = b.raw({common::Op::kSoftmax,
                 DType::kFloat32,
                 {512, 512},
                 {x},
                 common::SoftmaxAttr{axis, false}});
    }
    Graph body = finish(b, b.sort_indices(x, 1, true));
    return common::predict_ns({Template::kSort, {}, body}, {},
                              common::device_terms({"cuda-sm_90a"}));
  };
  EXPECT_LT(sorted(1), sorted(-1) * 1.5);
  EXPECT_GT(sorted(0), sorted(-1) * 5);
}

// Six steps: four and two, unless each chooses by a byte.
TEST(Profile, ShortRowsThatChooseAreComputedStepByStep) {
  auto softmax = [](bool masked) {
    GraphBuilder b;
    IrNode x = input(b, {4, 6});
    if (masked) {
      IrNode hidden = b.input(InputKind::kUser, DType::kBool, {4, 6}, "m");
      x = b.select(hidden, b.scalar(DType::kFloat32, -1), x);
    }
    return finish(
        b,
        b.raw({common::Op::kSoftmax, DType::kFloat32, {4, 6}, {x}, common::SoftmaxAttr{1, false}}));
  };
  EXPECT_GT(predicted(softmax(true), {}), predicted(softmax(false), {}) * 1.3);
}

// A few rows are multiplied column by column, and what is computed for them is computed as often.
TEST(Profiles, RowsOfASkinnyProductAreComputedForEachColumn) {
  auto product = [](int64_t rows, bool computed) {
    GraphBuilder b;
    IrNode x = input(b, {rows, 512}), w = input(b, {256, 512});
    if (computed) x = b.unary(UnaryOp::kLog, x);
    IrNode y = b.raw({common::Op::kContract,
                      DType::kFloat32,
                      {rows, 256},
                      {x, w},
                      common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
    return finish(b, y);
  };
  auto ns = [](const Graph& body, const common::Schedule& schedule) {
    return common::predict_ns({Template::kTile, schedule, body}, {}, common::device_terms({"cpu"}));
  };
  const common::Schedule packed = {{"mr", 1}};
  EXPECT_GT(ns(product(2, true), {}), 3 * ns(product(2, false), {}));
  EXPECT_LT(ns(product(2, true), packed), 2 * ns(product(2, false), packed));
  EXPECT_LT(ns(product(64, true), {}), 2 * ns(product(64, false), {}));
}

Graph product_of(int64_t rows, int64_t columns, int64_t steps) {
  GraphBuilder b;
  IrNode x = input(b, {rows, steps}), w = input(b, {columns, steps});
  return finish(b, b.raw({common::Op::kContract,
                          DType::kFloat32,
                          {rows, columns},
                          {x, w},
                          common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}}));
}

double tile_time(const Graph& body, const common::Schedule& schedule, const char* target) {
  return common::predict_ns({Template::kTile, schedule, body}, {}, common::device_terms({target}));
}

// 16 sums of 8 numbers do not fit into 16 registers beside what they are made of; as many sums of
// 16 numbers in 32 registers do.
TEST(Profiles, TilesFitTheTargetsRegisters) {
  const Graph body = product_of(1500, 1536, 384);
  const common::Schedule narrow = {{"mr", 6}, {"nr", 16}}, wide = {{"mr", 4}, {"nr", 32}};
  EXPECT_LT(tile_time(body, narrow, "cpu-x86_64-avx2"),
            0.8 * tile_time(body, wide, "cpu-x86_64-avx2"));
  EXPECT_GT(tile_time(body, narrow, "cpu-x86_64-avx512"),
            tile_time(body, wide, "cpu-x86_64-avx512"));
  EXPECT_GT(tile_time(body, {}, "cpu-x86_64"), tile_time(body, {}, "cpu-x86_64-avx2"));
}

// One unit leaves all threads but one idle.
TEST(Profiles, BlocksThatMakeOneUnitAreSlow) {
  const Graph body = product_of(256, 64, 576);
  const common::Schedule one = {{"mc", 256}, {"nc", 64}}, four = {{"mc", 64}, {"nc", 64}};
  EXPECT_GT(tile_time(body, one, "cpu-x86_64-avx2"), 2 * tile_time(body, four, "cpu-x86_64-avx2"));
}

}  // namespace
}  // namespace coordinator
