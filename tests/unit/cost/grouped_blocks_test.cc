// If these fail, experts of a model are multiplied by blocks that read more, or multiply more, than
// others would.
#include "common/schedule/grouped_blocks.h"

#include <gtest/gtest.h>

#include "common/cost/gpu_machine.h"

namespace common {
namespace {

constexpr int64_t kProcessors = 132;

double ns(const GroupedShape& shape, const GroupedBlocks& blocks) {
  return gpu_kernel_time(grouped_facts(shape, blocks), gpu_machine_of_target("cuda-sm_90a"))
      .total_ns;
}

// Of a prompt of 2,048 tokens to Qwen3 30B-A3B: 8 of 128 experts a token.
const GroupedShape kGateAndUp{16384, 128, 1536, 2048}, kDown{16384, 128, 2048, 768};

TEST(GroupedBlocks, WarpgroupsMultiplyManyRows) {
  for (const GroupedShape& shape : {kGateAndUp, kDown}) {
    const GroupedBlocks quick = grouped_blocks({{shape, 1}}, kProcessors, true);
    const GroupedBlocks warps = grouped_blocks({{shape, 1}}, kProcessors, false);
    EXPECT_TRUE(quick.has_warpgroups);
    EXPECT_FALSE(warps.has_warpgroups);
    EXPECT_LT(ns(shape, quick), 0.9 * ns(shape, warps));
  }
}

// A run fills up whole tiles of a warpgroup: of rows that nearly each have a matrix of their own,
// warps multiply less.
TEST(GroupedBlocks, RunsFillUpTiles) {
  const GroupedShape few{256, 128, 1536, 2048};
  const GroupedBlocks groups{64, 256, true};
  const GroupedBlocks warps{16, 64, false};
  EXPECT_EQ(grouped_facts(few, groups).tensor_operations, 0);
  EXPECT_EQ(grouped_facts(few, warps).warpgroup_operations, 0);
  EXPECT_GT(grouped_facts(few, groups).warpgroup_operations,
            2 * grouped_facts(few, warps).tensor_operations);
}

// A run begins a tile of its own.
TEST(GroupedBlocks, FewerGroupsMultiplyLess) {
  GroupedShape shape = kGateAndUp;
  const GroupedBlocks blocks{128, 256, true};
  double before = grouped_facts(shape, blocks).warpgroup_operations;
  shape.groups = 8;
  EXPECT_LT(grouped_facts(shape, blocks).warpgroup_operations, 0.9 * before);
  // Never less than the rows have.
  const auto products = static_cast<double>(shape.rows * shape.columns * shape.depth);
  EXPECT_GE(grouped_facts(shape, blocks).warpgroup_operations, 2 * products);
}

}  // namespace
}  // namespace common
