// How kernels are walked as loops: if these fail, predictions count work that no kernel does, or
// miss what a schedule costs.
#include <gtest/gtest.h>

#include "common/ir/builder.h"
#include "coordinator/search/cost_model.h"

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

KernelProfile profile_of(const Graph& body) {
  return profile_kernel({Template::kLoops, {}, body}, {});
}

double predicted(const Graph& body, const common::Schedule& schedule) {
  return predict_ns({Template::kLoops, schedule, body}, {}, device_terms({"cpu"}));
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
  KernelProfile profile = profile_of(body);
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
  KernelProfile profile = profile_of(body);
  EXPECT_EQ(profile.row_sums, 0);
  EXPECT_EQ(profile.row_ops, 0);
  EXPECT_EQ(profile.simple_ops, 32 * 64);
  for (const LoopWork& work : profile.loops) EXPECT_EQ(work.jumps, 0);
}

TEST(Profile, WhatARowAsksForTwiceIsComputedTwiceUnlessItIsKept) {
  GraphBuilder b;
  IrNode e = b.unary(UnaryOp::kExp, input(b, {64, 32}));
  Graph body = finish(b, b.binary(BinaryOp::kDiv, e, b.reduce(ReduceOp::kSum, e, {1}, true)));
  EXPECT_EQ(profile_of(body).hard_ops, 2 * 64 * 32);  // exponentials and divisions, once each
  EXPECT_GT(predicted(body, {{"stage", 0}}), predicted(body, {}) * 1.2);
}

}  // namespace
}  // namespace coordinator
