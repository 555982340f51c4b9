// The blocks of an attention of many rows, and what they take: if these fail, generator and search
// cut rows and keys differently, or a block does not fit.
#include "common/schedule/attention/flash_blocks.h"

#include <gtest/gtest.h>

namespace common {
namespace {

constexpr int64_t kProcessors = 132;
const FlashShape kPrompt{32, 2048, 2048, 128, 128};

double time_of(const FlashShape& shape, const FlashBlocks& blocks) {
  return gpu_kernel_time(flash_facts(shape, blocks), gpu_machine_of_target("cuda-sm_90a")).total_ns;
}

TEST(FlashBlocks, EveryHeadSizeHasABlockThatFits) {
  for (int64_t depth : {16, 64, 80, 96, 128, 192, 256}) {
    for (bool two_parts : {false, true}) {
      FlashShape shape{8, 1000, 1000, depth, depth};
      shape.two_parts = two_parts;
      auto blocks = flash_blocks(shape, {0, 0}, kProcessors);
      ASSERT_TRUE(blocks.has_value()) << depth;
      EXPECT_LE(flash_shared_bytes(shape, *blocks), 99 * 1024) << depth;
      EXPECT_LE(flash_facts(shape, *blocks).registers, 255) << depth;
      EXPECT_EQ(blocks->rows, blocks->warps() * blocks->tiles() * 16);
    }
  }
  EXPECT_FALSE(flash_blocks({8, 1000, 1000, 512, 512}, {0, 0}, kProcessors).has_value());
}

// A warp with two tiles reads keys and values from shared memory for both.
TEST(FlashBlocks, LongPromptsTakeTwoTilesAWarp) {
  auto blocks = flash_blocks(kPrompt, {0, 0}, kProcessors);
  ASSERT_TRUE(blocks.has_value());
  EXPECT_EQ(blocks->rows, 128);
  EXPECT_EQ(blocks->keys, 64);
  EXPECT_LT(flash_facts(kPrompt, {128, 64}).shared_bytes_moved,
            0.7 * flash_facts(kPrompt, {64, 64}).shared_bytes_moved);
  auto wide = flash_blocks({32, 2048, 2048, 256, 256}, {0, 0}, kProcessors);
  EXPECT_EQ(wide->tiles(), 1);
}

TEST(FlashBlocks, WhatIsGivenIsKeptWhereItFits) {
  for (int64_t rows : {16, 32, 64, 128}) {
    for (int64_t keys : {32, 64}) {
      auto blocks = flash_blocks(kPrompt, {rows, keys}, kProcessors);
      EXPECT_EQ(blocks->rows, rows);
      EXPECT_EQ(blocks->keys, keys);
    }
  }
  FlashShape wide{8, 1000, 1000, 256, 256};
  EXPECT_EQ(flash_blocks(wide, {128, 0}, kProcessors)->rows, 64);
}

// Fails when warpgroups get more of shared memory or of registers than there is, or single warps
// are taken where warpgroups are quicker.
TEST(FlashBlocks, WarpgroupsMultiplyWhereTheyMay) {
  for (int64_t depth : {64, 96, 128, 192, 256}) {
    FlashShape shape{32, 2048, 2048, depth, depth};
    auto warps = flash_blocks(shape, {0, 0}, kProcessors);
    shape.warpgroups = true;
    auto blocks = flash_blocks(shape, {0, 0}, kProcessors);
    ASSERT_TRUE(blocks.has_value());
    EXPECT_TRUE(blocks->warpgroups) << depth;
    EXPECT_FALSE(warps->warpgroups) << depth;
    EXPECT_EQ(blocks->rows, blocks->warps() * 16);
    EXPECT_LT(time_of(shape, *blocks), time_of(shape, *warps)) << depth;
    for (bool two_parts : {false, true}) {
      shape.two_parts = two_parts;
      blocks = flash_blocks(shape, {128, 0}, kProcessors);
      EXPECT_LE(flash_shared_bytes(shape, *blocks), 227 * 1024) << depth;
    }
  }
  FlashShape asked = kPrompt;
  asked.warpgroups = true;
  EXPECT_FALSE(flash_blocks(asked, {32, 0}, kProcessors)->warpgroups);
  // No product has as many columns.
  FlashShape odd = asked;
  odd.width = 80;
  EXPECT_FALSE(flash_blocks(odd, {0, 0}, kProcessors)->warpgroups);
  EXPECT_EQ(flash_blocks(asked, {64, 0}, kProcessors)->rows, 64);
}

TEST(FlashBlocks, TimeFollowsWhatIsSeenAndComputed) {
  const FlashBlocks blocks{128, 64};
  FlashShape causal = kPrompt, parts = kPrompt, passes = kPrompt, computed = kPrompt;
  causal.seen = 0.5;
  parts.two_parts = true;
  passes.two_passes = true;
  computed.key_operations = 8;
  EXPECT_LT(time_of(causal, blocks), 0.6 * time_of(kPrompt, blocks));
  EXPECT_EQ(flash_facts(causal, blocks).tensor_operations * 2,
            flash_facts(kPrompt, blocks).tensor_operations);
  EXPECT_GT(flash_facts(parts, blocks).tensor_operations,
            1.4 * flash_facts(kPrompt, blocks).tensor_operations);
  EXPECT_GT(time_of(passes, blocks), 1.2 * time_of(kPrompt, blocks));
  EXPECT_GT(flash_facts(computed, blocks).thread_instructions,
            1.5 * flash_facts(kPrompt, blocks).thread_instructions);
  // The choice does not depend on what a row sees, which the generator is not told.
  EXPECT_EQ(flash_blocks(causal, {0, 0}, kProcessors)->rows,
            flash_blocks(kPrompt, {0, 0}, kProcessors)->rows);
}

}  // namespace
}  // namespace common
