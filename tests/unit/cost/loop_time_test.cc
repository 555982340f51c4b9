// How loops of processors are counted and priced: if these fail, nests are chosen for loops that
// nobody compiles.
#include "common/cost/loop_time.h"

#include <gtest/gtest.h>

namespace common {
namespace {

constexpr const VectorTerms& kTerms = kAvx512Vectors;

LoopWork loop_of(double extent, const StepWork& step, const VectorWish& vectors = {true}) {
  return {step, 1, extent, vectors};
}

TEST(LoopCounts, LoopsWithinLoopsRunForEachStep) {
  LoopCounts inner, middle, outer;
  inner.add(StepWork{.functions = 1});
  inner.set_vectors({true, 8, 2});
  middle.add(StepWork{.divisions = 1, .jumps = 1});
  middle.add_loop(std::move(inner), 32);
  outer.add_loop(std::move(middle), 5);
  const std::vector<LoopWork> loops = outer.finish();
  ASSERT_EQ(loops.size(), 3);
  EXPECT_EQ(loops[0].extent, 1);
  EXPECT_EQ(loops[0].runs, 5);
  EXPECT_EQ(loops[0].divisions, 1);
  EXPECT_EQ(loops[0].jumps, 0) << "outside of innermost loops no load has neighbours";
  EXPECT_EQ(loops[0].simple, 1);
  EXPECT_EQ(loops[1].extent, 32);
  EXPECT_EQ(loops[1].runs, 5);
  EXPECT_EQ(loops[1].functions, 1);
  EXPECT_EQ(loops[1].vectors, (VectorWish{true, 8, 2}));
  EXPECT_EQ(loops[2].simple, 0) << "the text around all loops does nothing";
}

TEST(LoopCounts, BlocksRunInAShareOfTheSteps) {
  LoopCounts block, row, around;
  row.add(StepWork{.simple = 1});
  block.add(StepWork{.calls = 2});
  block.add_loop(std::move(row), 8);
  around.add_block(std::move(block), 0.25);
  const std::vector<LoopWork> loops = around.finish();
  ASSERT_EQ(loops.size(), 2);
  EXPECT_EQ(loops[0].runs, 0.25);
  EXPECT_EQ(loops[0].extent, 8);
  EXPECT_EQ(loops[1].calls, 0.5);
}

TEST(LoopTime, VectorsTakeSixteenStepsAtOnce) {
  const StepWork exponential{.functions = 1};
  const double whole = loop_ns(loop_of(64, exponential), kTerms);
  EXPECT_GT(loop_ns(loop_of(63, exponential), kTerms), 2 * whole) << "15 steps are left over";
  EXPECT_GT(loop_ns(loop_of(64, exponential, {true, 16, 8}), kTerms), 5 * whole)
      << "no round of 128 steps fits";
}

TEST(LoopTime, LoadsOfDistantNeighboursGoOneByOne) {
  const double in_order = loop_ns(loop_of(256, {.simple = 2}), kTerms);
  const double apart = loop_ns(loop_of(256, {.simple = 1, .jumps = 1}), kTerms);
  EXPECT_GT(apart, 10 * in_order);
}

TEST(LoopTime, ShortLoopsBeginAndEndOften) {
  LoopWork rows = loop_of(32, {.simple = 2});
  rows.runs = 64;
  EXPECT_GT(loop_ns(rows, kTerms), 3 * loop_ns(loop_of(64 * 32, {.simple = 2}), kTerms));
}

TEST(LoopTime, TargetsHaveTheirOwnVectors) {
  EXPECT_EQ(vector_terms_of_target("cpu-x86_64-avx512").lanes, 16);
  EXPECT_EQ(vector_terms_of_target("cpu-x86_64-avx2").lanes, 8);
  EXPECT_EQ(vector_terms_of_target("cpu-aarch64").lanes, 4);
}

}  // namespace
}  // namespace common
