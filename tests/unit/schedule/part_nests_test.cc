// If these fail, blocks of a launch that multiplies a row by several matrices have idle threads, or
// nests are priced by code that is not theirs.
#include "common/schedule/part_nests.h"

#include <gtest/gtest.h>

#include "common/cost/gpu_machine.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/nest/lower_structure.h"
#include "common/schedule/gpu_nest.h"

namespace common {
namespace {

// Products of one normalised row of 3,584 elements, as queries, keys and values of a token are.
// `heights`: rows of the matrices.
Kernel projections(const std::vector<int64_t>& heights) {
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
  for (int64_t rows : heights) {
    NodeId weights = b.input(InputKind::kUser, DType::kBfloat16, {rows, kWidth}, "w");
    NodeId product =
        b.binary(BinaryOp::kMul, b.expand(row, {rows, kWidth}), b.cast(weights, DType::kFloat32));
    b.output(b.reduce(ReduceOp::kSum, product, {1}));
  }
  return Kernel{Template::kHorizontal, {}, b.finish(), {}};
}

TEST(PartNests, ThreadsTakeEqualSharesOfARow) {
  auto parts =
      choose_part_nests(projections({4096, 1024, 1024}), gpu_machine_of_target("cuda-sm_90a"));
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  for (const LoopNest& nest : parts->nests) {
    EXPECT_EQ(nest.threads.access, 8);
    // 448 accesses of 16 bytes.
    EXPECT_EQ(448 % nest.threads.threads, 0) << print(nest);
  }
}

// Threads keep no weights: loops of 7 steps are not unrolled. Fails when loads that such loops
// cannot begin early are counted twice.
TEST(GpuNests, ArePricedByTheirOwnLoads) {
  const Graph body = lower_structure(projections({4096}).body, Kept::kNone);
  const Schedule schedule{{"access", 8}, {"rows", 8}, {"team", 64}};
  auto chosen = choose_gpu_nest(body, schedule, gpu_machine_of_target("cuda-sm_90a"), false);
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  EXPECT_TRUE(chosen->nest.threads.ahead) << print(chosen->nest);
  EXPECT_LT(chosen->facts[0].sector_bytes, 1.2 * chosen->facts[0].dram_bytes);
}

}  // namespace
}  // namespace common
