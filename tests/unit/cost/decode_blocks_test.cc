// How the blocks of an attention of few rows are chosen. If these fail, schedules that differ are
// predicted alike, or the generator starts blocks that have no keys.
#include "common/schedule/attention/decode_blocks.h"

#include <gtest/gtest.h>

#include "common/cost/gpu_machine.h"

namespace common {
namespace {

constexpr int64_t kProcessors = 132;

const DecodeShape kShapes[] = {{8, 4, 1024, 128, 128},   {4, 8, 1024, 128, 128},
                               {4, 2, 1024, 256, 256},   {1, 1, 100000, 64, 64},
                               {512, 8, 4096, 128, 128}, {3, 5, 17, 80, 96},
                               {1, 1, 1, 8, 8}};

double time_of(const DecodeShape& shape, const DecodeBlocks& blocks) {
  GpuMachine machine = gpu_machine_of_target("cuda-sm_90a");
  machine.processors = kProcessors;
  return gpu_kernel_time(decode_facts(shape, blocks), machine).total_ns;
}

int64_t steps_of(const DecodeShape& shape, int64_t warps) {
  return (shape.keys + warps * kDecodeWarpKeys - 1) / (warps * kDecodeWarpKeys);
}

TEST(DecodeBlocks, TakeLeastOfThoseThatSchedulesName) {
  for (const DecodeShape& shape : kShapes) {
    const double chosen = time_of(shape, decode_blocks(shape, {0, 0}, kProcessors));
    for (int64_t warps : {1, 2, 4}) {
      for (int64_t splits : {1, 2, 4, 8, 16, 32}) {
        if (splits > steps_of(shape, warps)) continue;
        EXPECT_LE(chosen, time_of(shape, {warps, splits})) << shape.keys << " " << warps;
      }
    }
  }
}

TEST(DecodeBlocks, AllHaveKeys) {
  for (const DecodeShape& shape : kShapes) {
    const DecodeBlocks b = decode_blocks(shape, {0, 0}, kProcessors);
    const int64_t steps = steps_of(shape, b.warps), own = (steps + b.splits - 1) / b.splits;
    EXPECT_LT((b.splits - 1) * own, steps) << shape.keys;
  }
}

// Of a cache that may be short or long: what is chosen is best by the weighted time, and far better
// at the long end than what suits the short one.
TEST(DecodeBlocks, AreChosenOverARangeOfKeys) {
  const std::vector<WeightedShape> range{
      {{8, 4, 32, 128, 128}, 0.4}, {{8, 4, 1, 128, 128}, 0.4}, {{8, 4, 2048, 128, 128}, 0.2}};
  auto mean_of = [&](const DecodeBlocks& blocks) {
    double sum = 0;
    for (const WeightedShape& each : range) sum += each.weight * time_of(each.shape, blocks);
    return sum;
  };
  const DecodeBlocks chosen = decode_blocks(range, {0, 0}, kProcessors);
  for (const WeightedShape& each : range) {
    EXPECT_LE(mean_of(chosen), mean_of(decode_blocks(each.shape, {0, 0}, kProcessors)));
  }
  const DecodeShape& longest = range.back().shape;
  const DecodeBlocks of_typical = decode_blocks(range[0].shape, {0, 0}, kProcessors);
  EXPECT_LT(time_of(longest, chosen) * 2, time_of(longest, of_typical));
}

TEST(DecodeBlocks, KeepWhatIsGiven) {
  const DecodeShape& shape = kShapes[0];
  const DecodeBlocks both = decode_blocks(shape, {2, 16}, kProcessors);
  EXPECT_EQ(both.warps, 2);
  EXPECT_EQ(both.splits, 16);
  EXPECT_EQ(decode_blocks(shape, {1, 0}, kProcessors).warps, 1);
  EXPECT_EQ(decode_blocks(shape, {0, 4}, kProcessors).splits, 4);
  // No more than there are steps.
  EXPECT_EQ(decode_blocks({1, 1, 100, 64, 64}, {4, 32}, kProcessors).splits, 2);
}

// Few blocks have many steps one after the other; many leave parts that one of them must merge.
TEST(DecodeBlocks, SplitsTradeStepsForParts) {
  const DecodeShape shape{1, 8, 8192, 128, 128};
  const GpuKernelFacts one = decode_facts(shape, {4, 1}), many = decode_facts(shape, {4, 64});
  EXPECT_EQ(one.dram_bytes, many.dram_bytes);
  EXPECT_EQ(one.blocks, 1);
  EXPECT_EQ(many.blocks, 64);
  EXPECT_GT(one.wait_clocks, 128 * kGpuMemoryClocks);
  EXPECT_LT(many.wait_clocks, one.wait_clocks / 10);
  EXPECT_EQ(one.sector_bytes, one.dram_bytes);
  EXPECT_GT(many.sector_bytes, many.dram_bytes);
  EXPECT_LT(time_of(shape, {4, 64}), time_of(shape, {4, 1}));
  EXPECT_NE(time_of(shape, {4, 16}), time_of(shape, {2, 16}));
}

}  // namespace
}  // namespace common
