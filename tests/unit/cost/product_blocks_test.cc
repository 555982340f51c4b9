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
  EXPECT_EQ(product_block({{product(4096, 4096, 4096), 1}}, {}, kProcessors),
            (ProductBlock{128, 256, 2, 1}));
}

TEST(ProductBlocks, FewRowsShareK) {
  const TileShape few = product(32, 4096, 14336);
  const ProductBlock block = product_block({{few, 1}}, {}, kProcessors);
  EXPECT_GT(block.splits, 1);
  ProductBlock alone = block;
  alone.splits = 1;
  EXPECT_GT(time_of(few, alone), 2 * time_of(few, block));
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
  for (int64_t size : {64064, 64128, 64256, 128064, 128128, 128256}) {
    for (int64_t cluster : {0, 1, 2}) {
      for (int64_t splits : {0, 1, 32}) {
        const ProductBlock block =
            product_block(shapes, product_wish(size, cluster, splits), kProcessors);
        EXPECT_EQ(block.rows * 1000 + block.columns, size);
        EXPECT_TRUE(cluster == 0 || block.cluster == cluster);
        EXPECT_TRUE(splits == 0 || block.splits == splits);
      }
    }
  }
}

}  // namespace
}  // namespace common
