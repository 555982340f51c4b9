// CUDA text for machines of several sizes: if these fail, small GPUs run what was cut for large
// ones.
#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "worker/codegen/cuda/cuda.h"

namespace worker {
namespace {

using common::DType;
using common::Graph;
using common::GraphBuilder;
using common::InputKind;
using common::NodeId;
using common::Template;

constexpr std::string_view kLarge = "NVIDIA H100 80GB HBM3, 132 SMs, 80 GiB, 700 W";
constexpr std::string_view kSmall = "NVIDIA L4, 58 SMs, 22 GiB, 72 W";

// Blocks of one launch for a machine of the class.
int64_t blocks(Template form, const Graph& body, std::string_view target,
               std::string_view machine_class) {
  CudaCodeGenerator generator({std::string(target)}, machine_class);
  auto source = generator.generate({form, {}, body, {}});
  EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().message);
  if (!source.ok()) return 0;
  return source->entry.block.blocks(source->entry.units.evaluate({}));
}

Graph product(int64_t m, int64_t n, int64_t k) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {m, k}, "x");
  NodeId y = b.input(InputKind::kUser, DType::kFloat32, {k, n}, "y");
  b.output(b.raw({common::Op::kContract,
                  DType::kFloat32,
                  {m, n},
                  {x, y},
                  common::ContractAttr{{0, 2}, {2, 1}, {0, 1}}}));
  return b.finish();
}

TEST(CudaMachines, ProductsShareTheirSumsForTheMachine) {
  struct Case {
    int64_t m, n, k;
  };
  // Few rows, and blocks of the product by plain multiply-adds.
  for (auto [m, n, k] : {Case{2, 256, 65536}, Case{128, 128, 65536}}) {
    Graph body = product(m, n, k);
    int64_t large = blocks(Template::kTile, body, "cuda-sm_90a", kLarge);
    int64_t small = blocks(Template::kTile, body, "cuda-sm_89", kSmall);
    EXPECT_GT(small, 1) << m;
    EXPECT_LE(small, 58) << m;
    EXPECT_GT(large, small) << m;
    EXPECT_LE(large, 132) << m;
    EXPECT_EQ(blocks(Template::kTile, body, "cuda-sm_90a", ""), large) << "typical of the target";
  }
}

}  // namespace
}  // namespace worker
