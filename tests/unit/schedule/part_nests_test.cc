// If these fail, blocks of a launch that multiplies a row by several matrices have idle threads.
#include "common/schedule/part_nests.h"

#include <gtest/gtest.h>

#include "common/cost/gpu_machine.h"
#include "common/ir/hlir/builder.h"

namespace common {
namespace {

// Products of one normalised row of 3,584 elements, as queries, keys and values of a token are.
Kernel projections() {
  constexpr int64_t kWidth = 3584;
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {kWidth}, "x");
  NodeId wide = b.cast(x, DType::kFloat32);
  NodeId squares = b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, wide, wide), {0}, true);
  NodeId scale =
      b.cast(b.input(InputKind::kUser, DType::kBfloat16, {kWidth}, "scale"), DType::kFloat32);
  auto rounded = [&](NodeId y) { return b.cast(b.cast(y, DType::kBfloat16), DType::kFloat32); };
  NodeId row = rounded(b.binary(BinaryOp::kMul, wide, b.unary(UnaryOp::kRsqrt, squares)));
  row = rounded(b.binary(BinaryOp::kMul, scale, row));
  for (int64_t rows : {4096, 1024, 1024}) {
    NodeId weights = b.input(InputKind::kUser, DType::kBfloat16, {rows, kWidth}, "w");
    NodeId product =
        b.binary(BinaryOp::kMul, b.expand(row, {rows, kWidth}), b.cast(weights, DType::kFloat32));
    b.output(b.reduce(ReduceOp::kSum, product, {1}));
  }
  return Kernel{Template::kHorizontal, {}, b.finish(), {}};
}

TEST(PartNests, ThreadsTakeEqualSharesOfARow) {
  auto parts = choose_part_nests(projections(), gpu_machine_of_target("cuda-sm_90a"));
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  for (const LoopNest& nest : parts->nests) {
    EXPECT_EQ(nest.threads.access, 8);
    // 448 accesses of 16 bytes.
    EXPECT_EQ(448 % nest.threads.threads, 0) << print(nest);
  }
}

}  // namespace
}  // namespace common
