// Which loops a processor's kernels get, and what they are counted to do: if these fail, kernels
// walk memory the wrong way, or compute again what one loop could have computed once.
#include "common/schedule/cpu_nest.h"

#include <gtest/gtest.h>

#include "common/cost/loop_time.h"
#include "common/ir/hlir/builder.h"
#include "common/lowering/loops/pair_squares.h"

namespace common {
namespace {

NodeId input(GraphBuilder& b, Shape shape) {
  return b.input(InputKind::kUser, DType::kFloat32, std::move(shape), "x");
}

Graph finish(GraphBuilder& b, NodeId output) {
  b.output(output);
  return b.finish();
}

LoopNest chosen(const Graph& body, const Schedule& schedule = {},
                const VectorTerms& terms = kAvx512Vectors) {
  auto nest = choose_cpu_nest(body, schedule, terms);
  EXPECT_TRUE(nest.ok()) << nest.error().message;
  return *nest;
}

std::vector<LoopWork> counted(const Graph& body, const LoopNest& nest) {
  const LoopsContext context;
  CpuLoops loops(body, nest, context);
  EXPECT_TRUE(loops.run().ok());
  return loops.writer().loop_work();
}

// Of all steps in loops of that length.
double steps(const std::vector<LoopWork>& loops, double extent, double StepWork::*kind) {
  double sum = 0;
  for (const LoopWork& loop : loops) {
    if (loop.extent == extent) sum += loop.runs * loop.extent * loop.*kind;
  }
  return sum;
}

TEST(CpuNests, LoopsOverWhatLiesInOrderAreOne) {
  GraphBuilder b;
  const Graph body = finish(b, b.unary(UnaryOp::kExp, input(b, {64, 32})));
  EXPECT_EQ(chosen(body).shared.extents.size(), 1);
  GraphBuilder rows;
  NodeId x = input(rows, {64, 32}), w = input(rows, {32});
  const Graph shared = finish(rows, rows.binary(BinaryOp::kAdd, x, w));
  EXPECT_EQ(chosen(shared).shared.extents.size(), 2) << "one loop would divide its index";
}

TEST(CpuNests, CountsAreOfTheLoopsThatArePrinted) {
  GraphBuilder b;
  NodeId x = input(b, {64, 32}), w = input(b, {32});
  const Graph body = finish(b, b.unary(UnaryOp::kExp, b.binary(BinaryOp::kAdd, x, w)));
  const std::vector<LoopWork> loops = counted(body, chosen(body, {{"unroll", 2}, {"vector", 8}}));
  EXPECT_EQ(steps(loops, 32, &StepWork::functions), 64 * 32);
  EXPECT_EQ(steps(loops, 32, &StepWork::simple), 64 * 32 * 4) << "two loads, a sum, a store";
  for (const LoopWork& loop : loops) {
    if (loop.extent != 32) continue;
    EXPECT_EQ(loop.vectors, (VectorWish{true, 8, 2}));
  }
}

TEST(CpuNests, SumsOfColumnsGoSideBySide) {
  GraphBuilder b;
  const Graph body = finish(b, b.reduce(ReduceOp::kSum, input(b, {512, 64}), {0}));
  const LoopNest nest = chosen(body);
  EXPECT_TRUE(nest.groups[0].accumulators.has_value());
  EXPECT_EQ(steps(counted(body, nest), 64, &StepWork::jumps), 0);
  LoopNest plain = nest;
  plain.groups[0].accumulators.reset();
  plain.blocks_in_grid = false;
  EXPECT_EQ(steps(counted(body, plain), 512, &StepWork::jumps), 512 * 64);
}

TEST(CpuNests, SumsOfRowsEndOnceARow) {
  GraphBuilder b;
  const Graph body = finish(b, b.reduce(ReduceOp::kMax, input(b, {4, 6, 33}), {2}));
  double ends = 0;
  for (const LoopWork& loop : counted(body, chosen(body))) {
    ends += loop.runs * loop.extent * loop.row_sums;
  }
  EXPECT_EQ(ends, 4 * 6);
}

// [panel, pair, column, 2] of a matrix of rows of pairs.
Graph panels_of(int64_t rows, int64_t depth) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kWeight, DType::kBfloat16, {rows, depth}, "w");
  View panels;
  panels.shape = {rows / 16, depth / 2, 16, 2};
  panels.index = {Expr::index(0) * Expr(16) + Expr::index(2),
                  Expr::index(1) * Expr(2) + Expr::index(3)};
  return finish(b, b.view(x, panels));
}

TEST(CpuNests, PairsGoIntoPanelsBySquares) {
  const Graph body = panels_of(1024, 256);
  const LoopNest nest = chosen(body);
  EXPECT_EQ(nest.grid, 1);
  auto squares = pair_squares(body, nest);
  ASSERT_TRUE(squares.has_value()) << print(nest);
  EXPECT_EQ(squares->from_stride, 256);
  EXPECT_EQ(squares->to_stride, 32);
  const Graph no_squares = panels_of(1024, 40);
  EXPECT_FALSE(chosen(no_squares).transposed);
}

TEST(CpuNests, WhatARowAsksForTwiceIsKept) {
  GraphBuilder b;
  NodeId e = b.unary(UnaryOp::kExp, input(b, {64, 32}));
  const Graph body = finish(b, b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {1}, true)));
  const LoopNest kept = chosen(body), again = chosen(body, {{"stage", 0}});
  EXPECT_EQ(kept.reductions.staged.size(), 1);
  EXPECT_EQ(steps(counted(body, kept), 32, &StepWork::functions), 64 * 32);
  EXPECT_EQ(steps(counted(body, again), 32, &StepWork::functions), 2 * 64 * 32);
}

// Elements that an index tensor chooses one by one, and rows that it chooses.
TEST(CpuNests, ChosenElementsAreLoadedOneByOne) {
  auto jumps = [](bool rows) {
    GraphBuilder b;
    NodeId data = input(b, {100, 32});
    NodeId which = b.input(InputKind::kUser, DType::kInt64, {rows ? 16 : 32}, "i");
    NodeId spread = b.view(which, {{16, 32}, {Expr::index(rows ? 0 : 1)}, {}, 0});
    const Coordinate found{0, 0}, row{-1, Expr::index(0)}, column{-1, Expr::index(1)};
    GatherAttr at{rows ? std::vector{found, column} : std::vector{row, found}};
    const Graph body =
        finish(b, b.raw({Op::kGather, DType::kFloat32, {16, 32}, {data, spread}, at}));
    return steps(counted(body, chosen(body)), 32, &StepWork::jumps);
  };
  EXPECT_EQ(jumps(true), 0);
  EXPECT_EQ(jumps(false), 16 * 32);
}

}  // namespace
}  // namespace common
