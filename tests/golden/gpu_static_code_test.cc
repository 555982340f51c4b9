// What is told of machine code that is written out here.
#include <gtest/gtest.h>

#include "tests/bench/gpu_static/kernel_code.h"

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
  EXPECT_EQ(code.most_in_flight_bytes, 32);
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

}  // namespace
}  // namespace bench
