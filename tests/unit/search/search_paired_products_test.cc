// Two products that meet: if these fail, kernels hold two products that no block computes, or a
// network's shortcut is stored and read again where it need not be.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/clock.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/llir/load_time.h"
#include "coordinator/search/records/kernel_times.h"
#include "coordinator/search/strategy/region_search.h"
#include "program_interpreter.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::Op;

// relu(x . v + y . w) in bfloat16, each product rounded.
Graph two_products(int64_t rows, int64_t columns, int64_t depth, int64_t other_depth) {
  GraphBuilder b;
  auto product = [&](int64_t k) {
    auto x = b.cast(b.input(InputKind::kUser, DType::kBfloat16, {rows, k}, "x"), DType::kFloat32);
    auto w =
        b.cast(b.input(InputKind::kWeight, DType::kBfloat16, {columns, k}, "w"), DType::kFloat32);
    auto sum = b.matmul(x, b.permute(w, {1, 0}));
    return b.cast(b.cast(sum, DType::kBfloat16), DType::kFloat32);
  };
  auto sum = b.binary(BinaryOp::kAdd, product(depth), product(other_depth));
  b.output(b.cast(b.binary(BinaryOp::kMax, sum, b.scalar(DType::kFloat32, 0)), DType::kBfloat16));
  return b.finish();
}

size_t products_in(const common::Kernel& kernel) {
  return static_cast<size_t>(
      std::count_if(kernel.body.nodes.begin(), kernel.body.nodes.end(),
                    [](const common::Node& node) { return node.op == Op::kContract; }));
}

// The most products of a kernel in the program that the cost model chooses, whose results are the
// graph's.
size_t most_products(const Graph& graph, const common::Target& target) {
  common::SteadyClock clock;
  RegionSpace space(graph, clock, Numerics::kStrict, common::machine_of(target));
  KernelTimes times(nullptr, {{{}, 1}}, nullptr, target);
  auto search = RegionSearch::create(space, times, 0, SearchStrategy::kModel);
  auto candidate = search->propose();
  if (!candidate) return 0;
  const auto inputs = common::testing::sample_inputs(graph, {}, 5);
  auto expected = common::interpret(graph, inputs, {});
  auto actual = common::testing::interpret_program(*candidate->program, inputs, {});
  EXPECT_TRUE(expected.ok() && actual.ok());
  if (expected.ok() && actual.ok()) {
    EXPECT_LT(common::testing::largest_difference(*actual, *expected), 2e-2);
  }
  size_t most = 0;
  for (const auto& kernel : candidate->program->kernels) {
    most = std::max(most, products_in(kernel));
  }
  return most;
}

TEST(PairedProducts, ShareAKernelWhereWarpgroupsMultiply) {
  const Graph graph = two_products(1024, 512, 128, 256);
  EXPECT_EQ(most_products(graph, {"cuda-sm_90a"}), 2u);
  EXPECT_EQ(most_products(graph, {"cuda-sm_80"}), 1u);
}

// Sums over other than whole steps, and of few rows.
TEST(PairedProducts, OthersDoNot) {
  EXPECT_EQ(most_products(two_products(1024, 512, 128, 200), {"cuda-sm_90a"}), 1u);
  EXPECT_EQ(most_products(two_products(8, 512, 128, 256), {"cuda-sm_90a"}), 1u);
}

}  // namespace
}  // namespace coordinator
