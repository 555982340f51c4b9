// What is told of machine code that is written out here.
#include <gtest/gtest.h>

#include "common/cost/gpu_time.h"
#include "tests/bench/gpu_static/kernel_code.h"
#include "tests/bench/gpu_static/warp_clocks.h"

namespace bench {
namespace {

using common::SassClass;
using common::SassInstruction;
using common::SassKernel;

SassInstruction of(SassClass kind, uint8_t bytes = 0) {
  SassInstruction x;
  x.kind = kind;
  x.bytes = bytes;
  x.is_reached = true;
  return x;
}

// Two instructions and a call outside, a loop of 4 with loads of 16 bytes, a loop of 3 with loads
// of 2 bytes, and a loop of 2 that does nothing known.
SassKernel two_streams() {
  SassKernel kernel;
  kernel.name = "k";
  kernel.code = {
      of(SassClass::kArithmetic),    of(SassClass::kCall),   of(SassClass::kGlobalLoad, 16),
      of(SassClass::kBarrier),       of(SassClass::kTensor), of(SassClass::kBranch),
      of(SassClass::kGlobalLoad, 2), of(SassClass::kCall),   of(SassClass::kBranch),
      of(SassClass::kArithmetic),    of(SassClass::kBranch), of(SassClass::kGlobalStore, 8),
  };
  kernel.loops = {{2, 5}, {6, 8}, {9, 10}};
  return kernel;
}

ThreadTraffic traffic(double wide, double narrow) {
  ThreadTraffic t;
  t.loads = wide + narrow;
  t.loads_by_width = {0, narrow, 0, 0, wide};
  return t;
}

TEST(KernelCode, LoopsTurnAsOftenAsTheirWidestLoadsSay) {
  KernelCode code = kernel_code(two_streams(), {}, traffic(1600, 4));
  EXPECT_EQ(code.instructions, 2 + 100 * 4 + 2 * 3 + 4 * 2 + 1);
  EXPECT_EQ(code.tensor_instructions, 100);
  EXPECT_EQ(code.load_bytes, 16);
  EXPECT_EQ(code.store_bytes, 8);
  EXPECT_EQ(code.barriers_step, 1);
  EXPECT_EQ(code.epilogue_share, (2 * 3 + 4 * 2 + 1) / code.instructions);
}

// Fails when the width is that of most instructions, or of the first loop.
TEST(KernelCode, TheMainLoopIsTheOneThatLoadsMost) {
  KernelCode code = kernel_code(two_streams(), {}, traffic(16, 1000));
  EXPECT_EQ(code.load_bytes, 2);
  EXPECT_EQ(code.barriers_step, 0);
  EXPECT_EQ(code.instructions, 2 + 1 * 4 + 500 * 3 + 4 * 2 + 1);
}

TEST(KernelCode, WithoutWidthsLoopsShareWhatIsLoaded) {
  ThreadTraffic t;
  t.loads = 180;
  EXPECT_EQ(kernel_code(two_streams(), {}, t).instructions, 2 + 10 * 4 + 10 * 3 + 4 * 2 + 1);
}

// Fails when what a rare end of a kernel has under way hides what its main loop has.
TEST(KernelCode, LoadsUnderWayAreThoseOfTheMainLoop) {
  SassKernel kernel = two_streams();
  kernel.code[2].scoreboard = 0;
  kernel.code[3].waits = 1;
  for (int8_t scoreboard : {1, 2}) {
    kernel.code.push_back(of(SassClass::kGlobalLoad, 16));
    kernel.code.back().scoreboard = scoreboard;
  }
  KernelCode code = kernel_code(kernel, {}, traffic(1600, 4));
  EXPECT_EQ(code.in_flight_bytes, 16);
  EXPECT_EQ(common::loads_in_flight(kernel).bytes, 32);
}

TEST(KernelCode, CallsInLoopsAreDivisionsUnlessTheyAreRareCasesOfFloats) {
  SassKernel kernel = two_streams();
  EXPECT_EQ(kernel_code(kernel, {}, traffic(16, 2)).divisions_in_loops, 1);
  kernel.code[6].opcode = 0x102;
  EXPECT_EQ(kernel_code(kernel, {}, traffic(16, 2)).divisions_in_loops, 0);
  // Double arithmetic is none.
  kernel.code[9].kind = SassClass::kDouble;
  EXPECT_EQ(kernel_code(kernel, {}, traffic(16, 2)).divisions_in_loops, 0);
}

// A function behind the kernel's end.
TEST(KernelCode, WhatIsOnlyCalledDoesNotCount) {
  SassKernel kernel = two_streams();
  double before = kernel_code(kernel, {}, traffic(16, 2)).instructions;
  kernel.code.push_back(of(SassClass::kDouble));
  kernel.code.back().is_reached = false;
  EXPECT_EQ(kernel_code(kernel, {}, traffic(16, 2)).instructions, before);
}

SassInstruction load(int8_t scoreboard) {
  SassInstruction x = of(SassClass::kGlobalLoad, 16);
  x.scoreboard = scoreboard;
  x.stall = 2;
  return x;
}
SassInstruction use(uint8_t waits, uint8_t stall = 4) {
  SassInstruction x = of(SassClass::kFloat);
  x.waits = waits;
  x.stall = stall;
  return x;
}

// Loads that are asked for together arrive together; one that needs another's value does not.
TEST(WarpClocks, LoadsThatDependOnEachOtherTakeARoundEach) {
  const double round = common::kGpuMemoryClocks;
  SassKernel kernel;
  kernel.code = {load(0), load(1), use(1), use(2)};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}), round + 8);
  kernel.code = {load(0), use(1), load(1), use(2)};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}), 2 * (round + 4));
  kernel.code[2].is_reached = false;
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}), round + 8);
}

// What a block does while earlier kernels run is no time of its own.
TEST(WarpClocks, BeginAtTheWaitForEarlierKernels) {
  SassKernel kernel;
  SassInstruction wait = use(0, 2);
  wait.opcode = 0x02e;
  kernel.code = {use(0, 9), load(0), wait, use(1, 3)};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}), 2 + 3);
}

// A step that uses what the step before asked for waits only for the rest of its round.
TEST(WarpClocks, StepsOfALoopTakeWhatTheSecondOneTakes) {
  const double round = common::kGpuMemoryClocks;
  SassKernel kernel;
  kernel.code = {use(0), load(0), use(1)};
  kernel.loops = {{1, 2}};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {10}), 4 + 10 * (round + 4));
  // The loads of a step come after the use of those before; the first use waits for nothing.
  kernel.code = {use(1), load(0), use(0, 15)};
  kernel.loops = {{0, 2}};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {11}), (4 + 2 + 15) + 10 * (round + 4));
  // An inner loop turns in each step of the outer one.
  kernel.code = {use(0), load(0), use(1), use(0)};
  kernel.loops = {{0, 3}, {1, 2}};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {3, 5}), 3 * (8 + 5 * (round + 4)));
}

TEST(WarpClocks, CopiesAreWaitedForByGroup) {
  SassInstruction copy = of(SassClass::kAsyncCopy, 16), end = of(SassClass::kOther);
  end.ends_copies = true;
  SassInstruction one_left = of(SassClass::kOther), none_left = one_left;
  one_left.copies_left = 1;
  none_left.copies_left = 0;
  SassKernel kernel;
  kernel.code = {copy, end, use(0, 15), copy, end, one_left};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}), common::kGpuMemoryClocks + 1);
  kernel.code.push_back(none_left);
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}), 17 + common::kGpuMemoryClocks + 1);
}

SassInstruction product() {
  SassInstruction x = of(SassClass::kTensor);
  x.opcode = 0x1f0;
  x.stall = 1;
  return x;
}

// Products of warpgroups follow one another, from when the first box is there. The warp goes on
// until it waits for a group of them.
TEST(WarpClocks, ProductsAreWaitedForByGroup) {
  SassInstruction box = of(SassClass::kBoxCopy), last = product();
  box.stall = 2;
  last.ends_products = true;
  SassInstruction one_left = of(SassClass::kOther), none_left = one_left;
  one_left.products_left = 1;
  none_left.products_left = 0;
  SassKernel kernel;
  kernel.code = {box, last, product(), last};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}, 100), 5);
  kernel.code.push_back(one_left);
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}, 100), common::kGpuMemoryClocks + 100 + 1);
  kernel.code.push_back(none_left);
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}, 100), common::kGpuMemoryClocks + 300 + 1);
  kernel.code.erase(kernel.code.begin());
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {}, 100), 300 + 1);
}

// A loop that multiplies turns as often as makes the products, one that asks for boxes is of a warp
// beside the others, and the barriers of a step are those of the first.
TEST(KernelCode, LoopsOfBoxesAndProductsTurnAsOftenAsTheyAreSeen) {
  SassKernel kernel;
  kernel.code = {of(SassClass::kBoxCopy), of(SassClass::kBranch), product(), product(),
                 of(SassClass::kBarrier), of(SassClass::kBranch)};
  kernel.loops = {{0, 1}, {2, 5}};
  ThreadTraffic seen;
  seen.boxes = 10;
  seen.products = 14;
  seen.boxes_under_way = 48;
  KernelCode code = kernel_code(kernel, {}, seen);
  EXPECT_DOUBLE_EQ(code.instructions, 2 + 7 * 4);
  EXPECT_DOUBLE_EQ(code.tensor_instructions, 14);
  EXPECT_EQ(code.barriers_step, 1);
  EXPECT_EQ(code.in_flight_bytes, 48);
  EXPECT_EQ(code.load_bytes, 16);
}

// What a loop loads it loads in all turns of the loop around it together.
TEST(KernelCode, InnerLoopsTurnInEachStepOfTheOuterOne) {
  const double round = common::kGpuMemoryClocks;
  SassKernel kernel;
  kernel.code = {load(0), use(1), of(SassClass::kGlobalStore, 8)};
  kernel.code[2].stall = 2;
  kernel.loops = {{0, 2}, {0, 1}};
  ThreadTraffic seen = traffic(15 * 16, 0);
  seen.stores = 3 * 8;
  KernelCode code = kernel_code(kernel, {}, seen);
  EXPECT_DOUBLE_EQ(code.instructions, 15 * 2 + 3);
  EXPECT_DOUBLE_EQ(code.warp_clocks, 3 * (5 * (round + 4) + 2));
}

// What is written behind the end of a thread, and goes back, makes no loop of what lies between.
TEST(KernelCode, NothingTurnsAroundTheEndOfAThread) {
  SassInstruction exit = of(SassClass::kBranch);
  exit.opcode = 0x14d;
  SassKernel kernel;
  kernel.code = {of(SassClass::kOther), exit, of(SassClass::kBranch)};
  kernel.loops = {{0, 2}};
  for (SassInstruction& x : kernel.code) x.is_reached = true;
  EXPECT_DOUBLE_EQ(kernel_code(kernel, {}, {}).instructions, 3);
  kernel.code[1].is_conditional = true;
  EXPECT_DOUBLE_EQ(kernel_code(kernel, {}, {}).instructions, 12);
}

// If this fails, the time and the instructions of a warp that copies count as those of the warps
// that multiply, or products begin before their first boxes are there.
TEST(KernelCode, WarpsThatCopyWorkBesideThoseThatMultiply) {
  auto branch = [](int64_t target, bool is_conditional, uint16_t opcode = 0x147) {
    SassInstruction x = of(SassClass::kBranch);
    x.opcode = opcode;
    x.target = target;
    x.is_conditional = is_conditional;
    return x;
  };
  const SassInstruction exit = branch(-1, false, 0x14d);
  SassInstruction test = of(SassClass::kOther), last = product(), none_left = test;
  test.opcode = 0x1a7;
  last.ends_products = true;
  none_left.products_left = 0;
  SassKernel kernel;
  kernel.code = {branch(6, true),
                 test,
                 branch(9, true),
                 last,
                 none_left,
                 exit,
                 of(SassClass::kBoxCopy),
                 branch(6, true),
                 exit,
                 test,
                 branch(9, true),
                 branch(3, false)};
  kernel.loops = {{3, 11}, {6, 7}, {9, 10}};
  ThreadTraffic seen;
  seen.boxes = 3;
  seen.box_bytes = 64;
  seen.product_clocks = 100;
  KernelCode code = kernel_code(kernel, {}, seen);
  EXPECT_DOUBLE_EQ(code.instructions, 6);
  EXPECT_DOUBLE_EQ(code.copier_instructions, 2 + 3 * 2);
  // One branch, the box, 64 bytes at 32 a clock, the product, and what waits for it.
  EXPECT_DOUBLE_EQ(code.warp_clocks, 1 + common::kGpuMemoryClocks + 2 + 100 + 2);
  // Where one warp does both, nothing is left out.
  kernel.code[0].is_conditional = false;
  kernel.code[8] = branch(1, false);
  EXPECT_DOUBLE_EQ(kernel_code(kernel, {}, seen).copier_instructions, 0);
}

// If this fails, what the second step of a loop waits for is taken for what all others wait for.
TEST(WarpClocks, OnlyEarlyStepsWaitForWhatWasAskedForBefore) {
  SassInstruction last = product(), one_left = of(SassClass::kOther);
  last.ends_products = true;
  one_left.products_left = 1;
  SassKernel kernel;
  kernel.code = {last, one_left};
  kernel.loops = {{0, 1}};
  EXPECT_DOUBLE_EQ(warp_clocks(kernel, {10}, 100, 1000), 1000 + 9 * 100 + 1);
}

}  // namespace
}  // namespace bench
