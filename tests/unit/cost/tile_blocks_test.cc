// The blocks of a product on tensor cores, and what they take: if these fail, generator and search
// cut products differently, or operands that are computed by every block look free.
#include "common/schedule/tile_blocks.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "product_shape.h"

namespace common {
namespace {

double time_of(const TileShape& shape, const TileBlocks& blocks) {
  return gpu_kernel_time(tile_facts(shape, blocks, kProcessors),
                         gpu_machine_of_target("cuda-sm_90a"))
      .total_ns;
}

TileBlocks chosen(const TileShape& shape, const TileWish& wish = {}) {
  return tile_blocks({{shape, 1}}, wish, kProcessors);
}

TEST(TileBlocks, LargeProductsTakeLargeBlocks) {
  TileBlocks blocks = chosen(product(4096, 4096, 4096));
  EXPECT_EQ(blocks.rows, 128);
  EXPECT_EQ(blocks.columns, 128);
  EXPECT_EQ(blocks.splits, 1);
  EXPECT_LE(tile_shared_bytes(blocks), 99 * 1024);
}

TEST(TileBlocks, FewBlocksShareK) {
  EXPECT_GT(chosen(product(32, 1024, 4096)).splits, 1);
  // Parts that are allowed but not needed are not begun.
  TileBlocks blocks;
  blocks.rows = blocks.columns = 64;
  blocks.splits = 8;
  EXPECT_EQ(tile_facts(product(64, 64, 4096), blocks, kProcessors).blocks, 8);
  EXPECT_EQ(tile_facts(product(64, 64 * 66, 4096), blocks, kProcessors).blocks, 4 * 66);
  EXPECT_EQ(tile_facts(product(4096, 4096, 4096), blocks, kProcessors).blocks, 4096);
}

TEST(TileBlocks, WishesAreKept) {
  for (auto [rows, columns] :
       {std::pair{128, 128}, {128, 32}, {64, 128}, {32, 64}, {16, 32}, {0, 16}, {128, 0}}) {
    for (int64_t splits : {1, 4, 32}) {
      TileBlocks blocks = chosen(product(256, 512, 1024), {rows, columns, splits});
      EXPECT_EQ(blocks.splits, splits);
      EXPECT_TRUE(rows == 0 || blocks.rows == rows) << rows;
      EXPECT_TRUE(columns == 0 || blocks.columns == columns) << columns;
    }
  }
}

// Of llama's down projection at 32 tokens, which a gate with a sigmoid takes 2.65 ms in machine
// code and one that is stored 20 us.
TEST(TileBlocks, ComputedOperandsWaitForTheirLoads) {
  TileBlocks blocks;
  blocks.rows = blocks.columns = 64;
  TileShape stored = product(32, 4096, 14336), gated = stored, converted = stored;
  gated.left.is_copied = converted.left.is_copied = false;
  gated.left.element = {34, 2, 8, true};
  converted.left.element = {5, 1, 4, false};
  EXPECT_GT(time_of(gated, blocks), 20 * time_of(stored, blocks));
  EXPECT_NEAR(time_of(gated, blocks), 2.65e6, 0.2 * 2.65e6);
  EXPECT_GT(time_of(converted, blocks), 2 * time_of(stored, blocks));
}

TEST(TileShape, CountsWhatComputesAnElement) {
  auto shape_of = [](bool is_gated, bool is_rounded) {
    GraphBuilder b({{2, 4096}});
    NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {Expr::symbol(0), 256}, "");
    NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {512, 256}, "");
    NodeId rows = b.cast(x, DType::kFloat32);
    if (is_gated) {
      NodeId gate = b.unary(UnaryOp::kSigmoid, rows);
      rows =
          b.cast(b.cast(b.binary(BinaryOp::kMul, rows, gate), DType::kBfloat16), DType::kFloat32);
    }
    Node contract;
    contract.op = Op::kContract;
    contract.dtype = DType::kFloat32;
    contract.shape = {Expr::symbol(0), 512};
    contract.operands = {rows, b.cast(w, DType::kFloat32)};
    contract.attr = ContractAttr{{0, 2}, {1, 2}, {0, 1}};
    NodeId out = b.raw(contract);
    b.output(is_rounded ? b.cast(out, DType::kBfloat16) : out);
    return tile_shape(b.finish(), {100});
  };
  auto plain = shape_of(false, false), gated = shape_of(true, true);
  ASSERT_TRUE(plain && gated);
  EXPECT_EQ(plain->rows, 100);
  EXPECT_EQ(plain->columns, 512);
  EXPECT_EQ(plain->steps, 256);
  EXPECT_TRUE(plain->left.is_copied && plain->right.is_copied && gated->right.is_copied);
  EXPECT_EQ(plain->result_bytes, 4);
  EXPECT_EQ(gated->result_bytes, 2);
  EXPECT_FALSE(gated->left.is_copied);
  EXPECT_TRUE(gated->left.element.has_calls);
  EXPECT_EQ(gated->left.element.loads, 1);
  EXPECT_GT(gated->left.element.instructions, 20);
}

// Windows of 3 x 3 pixels of images of 7 x 7: of 21 taps along an axis 19 read a pixel.
TEST(TileShape, CountsTapsWithinTheImage) {
  const auto i = [](int label) { return Expr::index(label); };
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {32, 7, 7, 64}, "");
  NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {128, 3, 3, 64}, "");
  const Expr row = i(1) + i(3) - Expr(1), column = i(2) + i(4) - Expr(1);
  View windows{{32, 7, 7, 3, 3, 64}, {i(0), row, column, i(5)}, {{row, 7}, {column, 7}}, 0};
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {32, 7, 7, 128},
                  {b.view(x, windows), w},
                  ContractAttr{{0, 1, 2, 3, 4, 5}, {6, 3, 4, 5}, {0, 1, 2, 6}}}));
  auto shape = tile_shape(b.finish(), {});
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->taps, 9);
  EXPECT_NEAR(shape->left.element.load_bytes, 2 * 19.0 * 19 / 21 / 21, 1e-9);
  EXPECT_FALSE(shape->left.is_copied);
}

}  // namespace
}  // namespace common
