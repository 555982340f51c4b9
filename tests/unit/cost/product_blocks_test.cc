// The blocks of warpgroups that multiply a product, and what they take: if these fail, prompts of a
// few words keep most of a GPU idle, or long ones are cut for short ones.
#include "common/schedule/product_blocks.h"

#include <gtest/gtest.h>

#include "product_shape.h"

namespace common {
namespace {

double time_of(const TileShape& shape, const ProductBlock& block) {
  return products_ns({{shape, 1}}, block, gpu_machine_of_target("cuda-sm_90a"));
}

TEST(ProductBlocks, LargeProductsAreNotShared) {
  const ProductBlock block = product_block({{product(4096, 4096, 4096), 1}}, {}, kProcessors);
  EXPECT_EQ(block, (ProductBlock{128, 256, block.cluster, 1}));
}

TEST(ProductBlocks, FewRowsShareK) {
  const TileShape few = product(32, 4096, 14336);
  const ProductBlock block = product_block({{few, 1}}, {}, kProcessors);
  EXPECT_GT(block.splits, 1);
  ProductBlock alone = block;
  alone.splits = 1;
  EXPECT_GT(time_of(few, alone), 1.4 * time_of(few, block));
}

// A product of any number of rows has blocks that suit many and parts that suit few.
TEST(ProductBlocks, PartsFollowFromTheRows) {
  const TileShape few = product(32, 4096, 14336), many = product(2048, 4096, 14336);
  const ProductBlock block = product_block({{few, 0.8}, {many, 0.2}}, {}, kProcessors);
  EXPECT_EQ(block.rows, 128);
  EXPECT_GT(block.splits, 1);
  ProductBlock alone = block;
  alone.splits = 1;
  EXPECT_EQ(time_of(many, block), time_of(many, alone));
  const Expr tiles = Expr::symbol(0);
  for (int64_t count : {1, 16, 32, 66, 132, 133, 256}) {
    const TileShape shape = product(block.rows, block.columns * count, 65536);
    ProductBlock single = block;
    single.cluster = 1;
    EXPECT_EQ(product_facts(shape, single, kProcessors).blocks,
              static_cast<double>(
                  count *
                  product_parts(tiles, single, kProcessors).evaluate(std::vector<int64_t>{count})))
        << count;
  }
}

TEST(ProductBlocks, WishesAreKept) {
  const std::vector<WeightedTile> shapes = {{product(256, 512, 1024), 1}};
  for (int64_t size : {64064, 64128, 64256, 128064, 128128, 128256, 192064, 192128, 256064}) {
    for (int64_t cluster : {0, 1, 2, 4, 102, 104}) {
      for (int64_t splits : {0, 1, 32}) {
        const ProductBlock block =
            product_block(shapes, product_wish(size, cluster, splits), kProcessors);
        EXPECT_EQ(block.rows * 1000 + block.columns, size);
        EXPECT_TRUE(cluster == 0 || block.cluster == cluster % 100);
        EXPECT_TRUE(cluster == 0 || block.is_beside == (cluster > 100));
        EXPECT_TRUE(splits == 0 || block.splits == splits);
      }
    }
  }
}

// With a short epilogue that reads a value for each result.
ProductBlock block_of(int64_t rows, int64_t columns, int64_t steps) {
  TileShape shape = product(rows, columns, steps);
  shape.result = {8, 1, 2, false};
  shape.result_bytes = 2;
  return product_block({{shape, 1}}, {}, kProcessors);
}

// Stages that no step fills would take the room of another block.
TEST(ProductBlocks, HaveNoMoreStagesThanSteps) {
  EXPECT_EQ(block_of(100352, 256, 64).stages, 1);
  EXPECT_EQ(block_of(25088, 512, 128).stages, 2);
  EXPECT_EQ(block_of(4096, 4096, 4096).stages, 4);
}

// The channels of a window's pixel fill whole steps, however few they are.
TEST(ProductBlocks, EachTapTakesAStep) {
  TileShape windows = product(4096, 64, 3 * 8);
  windows.taps = 3;
  EXPECT_EQ(product_block({{windows, 1}}, {}, kProcessors).stages, 3);
  const GpuKernelFacts whole = product_facts(product(4096, 64, 3 * 64), {}, kProcessors);
  const GpuKernelFacts facts = product_facts(windows, {}, kProcessors);
  EXPECT_EQ(facts.thread_instructions, whole.thread_instructions);
  // Of the zeros none are multiplied but those that fill up the depth of a product.
  EXPECT_EQ(facts.warpgroup_operations, whole.warpgroup_operations / 4);
}

TEST(ProductBlocks, ShareAMultiprocessorWhereProductsAreShort) {
  EXPECT_GE(resident_products(block_of(100352, 256, 64)), 2);
  EXPECT_EQ(resident_products({128, 256, 2, 1, 4}), 1);
}

// 3 stages of 32 KB leave room for a second block, 4 do not; blocks of 256 columns have no room for
// one either way.
TEST(ProductBlocks, HaveFewerStagesWhereTwoBlocksHaveRoomThen) {
  EXPECT_EQ(resident_products({128, 128, 2, 1, 4}), 1);
  EXPECT_EQ(resident_products({128, 128, 2, 1, 3}), 2);
  const ProductBlock block = product_block({{product(25088, 256, 256), 1}}, {}, kProcessors);
  EXPECT_GE(resident_products(block), 2);
  EXPECT_EQ(product_block({{product(4096, 4096, 4096), 1}}, {}, kProcessors).stages, 4);
}

// A convolution of 64 channels reads each pixel nine times, from the second cache: its blocks are
// chosen by what the chip does, not by memory that would deliver nine copies.
TEST(ProductBlocks, AreNotWiderThanTheProduct) {
  EXPECT_EQ(block_of(100352, 64, int64_t{9} * 64).columns, 64);
}

// 32 images of `size` x `size` and 3 x 3 taps.
TileShape convolution(int64_t size, int64_t channels) {
  TileShape shape = product(32 * size * size, channels, 9 * channels);
  shape.taps = 9;
  const WindowGrid::Axis axis{size, 1, size + 2, size, 3, 1};
  shape.grid = WindowGrid{{axis, axis}};
  shape.left.is_copied = false;
  shape.left.element.load_bytes = 2;
  shape.result_bytes = 2;
  return shape;
}

// Of images of 4 x 3 pixels with a border of one: a row of windows reads three rows, a whole image
// all pixels, and windows of two images those between them, too.
TEST(ProductBlocks, PatchesHoldAllTaps) {
  const WindowGrid grid{{{4, 1, 6, 4, 3, 1}, {3, 1, 5, 3, 3, 1}}};
  EXPECT_EQ(grid.place(0), 0);
  EXPECT_EQ(grid.place(3), 3);
  EXPECT_EQ(grid.place(4), 6);
  EXPECT_EQ(grid.place(12), 30);
  EXPECT_EQ(grid.reach(), 2 + 12);
  EXPECT_EQ(grid.patch(4), 4 + 14);
  EXPECT_EQ(grid.patch(12), 16 + 14);
  EXPECT_EQ(grid.patch(24), 46 + 14);
  // From the third row of one image to the first of the next.
  EXPECT_EQ(grid.patch(8), 30 + 4 - 12 + 14);
  EXPECT_DOUBLE_EQ(grid.inside(), 12.0 / 30);
}

// Else the second cache delivers each pixel nine times.
TEST(ProductBlocks, KeepPixelsForAllTaps) {
  for (int64_t size : {56, 28, 14}) {
    const TileShape shape = convolution(size, 3584 / size);
    ProductBlock block = product_block({{shape, 1}}, {}, kProcessors);
    EXPECT_GT(block.patch, block.rows) << size;
    const GpuKernelFacts facts = product_facts(shape, block, kProcessors);
    block.patch = block.patches = 0;
    EXPECT_LT(facts.sector_bytes, 0.8 * product_facts(shape, block, kProcessors).sector_bytes);
    ProductWish wish;
    wish.has_patches = false;
    EXPECT_EQ(product_block({{shape, 1}}, wish, kProcessors).patch, 0);
  }
}

// 131 blocks of 192 rows have a multiprocessor each; of 196 blocks of 128 some would have two.
TEST(ProductBlocks, FillMultiprocessorsOnce) {
  const TileShape shape = convolution(28, 128);
  const ProductBlock block = product_block({{shape, 1}}, {}, kProcessors);
  EXPECT_EQ(block.rows, 192);
  // 131, filled up to whole clusters.
  EXPECT_LE(product_facts(shape, block, kProcessors).blocks, kProcessors);
}

// Sums that are rounded to halves before threads exchange them.
TEST(ProductBlocks, RoundedSumsAreHalfOfTheExchange) {
  const TileShape wide = product(25088, 512, 128);
  TileShape narrow = wide;
  narrow.sum_bytes = 2;
  ProductBlock block = product_block({{narrow, 1}}, {}, kProcessors);
  EXPECT_EQ(block.sum_bytes, 2);
  EXPECT_EQ(product_block({{narrow, 0.5}, {wide, 0.5}}, {}, kProcessors).sum_bytes, 4);
  const GpuKernelFacts facts = product_facts(narrow, block, kProcessors);
  EXPECT_EQ(product_facts(wide, block, kProcessors).shared_bytes_moved - facts.shared_bytes_moved,
            facts.blocks * static_cast<double>(block.rows * block.columns * 2 * 2));
  // One stage leaves room for more blocks of 192 rows than their sums do.
  block = {192, 64, 1, 1, 1};
  const double room = product_facts(wide, block, kProcessors).block_shared_bytes;
  block.sum_bytes = 2;
  EXPECT_LT(product_facts(narrow, block, kProcessors).block_shared_bytes, room);
}

// Of 6,272 rows and 256 columns there are 132 blocks of 192 x 64, one for each multiprocessor: four
// beside each other read their rows once. Rows that are windows go to one block alone.
TEST(ProductBlocks, LieBesideEachOtherWhereTheyAreAskedTo) {
  TileShape shape = product(6272, 256, 1024);
  shape.result_bytes = 2;
  const ProductWish asked = product_wish(192064, 104, 0);
  ProductBlock block = product_block({{shape, 1}}, asked, kProcessors);
  EXPECT_TRUE(block.is_beside);
  EXPECT_EQ(block.rows, 192);
  const GpuKernelFacts facts = product_facts(shape, block, kProcessors);
  EXPECT_EQ(facts.blocks, kProcessors);
  block.is_beside = false;
  EXPECT_LT(facts.sector_bytes, product_facts(shape, block, kProcessors).sector_bytes);
  shape.has_windows = true;
  EXPECT_FALSE(product_block({{shape, 1}}, product_wish(0, 104, 0), kProcessors).is_beside);
  ProductWish wish = product_wish(0, 102, 0);
  wish.may_be_beside = false;
  EXPECT_FALSE(product_block({{product(256, 512, 1024), 1}}, wish, kProcessors).is_beside);
}

// Blocks that copy weights together ask the second cache for less, but have to meet.
TEST(ProductBlocks, FormClustersWhereTheSecondCacheIsTheLimit) {
  EXPECT_EQ(block_of(6272, 256, 2304).cluster, 2);
  EXPECT_EQ(block_of(4096, 4096, 4096).cluster, 1);
}

}  // namespace
}  // namespace common
