// CUDA text for machines of several sizes: if these fail, small GPUs run what was cut for large
// ones.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/schedule/kernels/kernel_nest.h"
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
  const common::Target written_for{std::string(target)};
  common::Kernel kernel{form, {}, body, {}};
  const common::NestMachine machine(common::machine_of(written_for), target, machine_class);
  EXPECT_TRUE(common::add_nest(kernel, machine).ok());
  auto source = CudaCodeGenerator(written_for).generate(kernel);
  EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().message);
  if (!source.ok()) return 0;
  return source->entry.block.blocks(source->entry.units.evaluate({}));
}

common::Result<KernelSource> hopper_source(common::Kernel kernel) {
  LFARM_RETURN_IF_ERROR(
      common::add_nest(kernel, {common::Machine::kGpuWarpgroups, "cuda-sm_90a", ""}));
  return CudaCodeGenerator({"cuda-sm_90a"}).generate(kernel);
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

// How often `what` stands in the text for the target of a kernel that adds rows up.
size_t count_in_text(std::string_view target, std::string_view what, bool& waits) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {64, 512}, "x");
  b.output(b.reduce(common::ReduceOp::kSum, x, {1}));
  common::Kernel kernel{Template::kLoops, {}, b.finish(), {}};
  kernel.nest = common::kernel_nest(kernel, common::Machine::kGpu).value();
  auto source = CudaCodeGenerator({std::string(target)}).generate(kernel);
  EXPECT_TRUE(source.ok()) << (source.ok() ? "" : source.error().message);
  waits = source->entry.waits;
  size_t count = 0;
  for (size_t at = source->text.find(what); at != std::string::npos;
       at = source->text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

// Kernels that begin early read nothing before their wait, nor through the read-only path.
TEST(CudaMachines, KernelsWaitForEarlierOnesWhereTheyCan) {
  bool waits = false;
  for (const char* target : {"cuda-sm_90a", "cuda-sm_100"}) {
    EXPECT_EQ(count_in_text(target, "{\n  lf_wait_for_earlier();\n", waits), 1u) << target;
    EXPECT_TRUE(waits) << target;
    EXPECT_EQ(count_in_text(target, "__restrict__ in", waits), 0u) << target;
    EXPECT_EQ(count_in_text(target, "__restrict__ out", waits), 1u) << target;
  }
  for (const char* target : {"cuda-sm_80", "cuda-sm_89", "cuda"}) {
    EXPECT_EQ(count_in_text(target, "lf_wait_for_earlier", waits), 0u) << target;
    EXPECT_FALSE(waits) << target;
    EXPECT_EQ(count_in_text(target, "__restrict__ in", waits), 1u) << target;
  }
}

// Blocks whose operands the copy engine brings begin their barriers before they wait; all copies
// and loads come behind the wait of the warp that does them.
TEST(CudaMachines, CopyingBlocksSetUpBeforeTheyWait) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {256, 128}, "x");
  NodeId y = b.input(InputKind::kUser, DType::kBfloat16, {256, 128}, "y");
  NodeId scale = b.input(InputKind::kUser, DType::kFloat32, {256}, "scale");
  NodeId sum = b.raw({common::Op::kContract,
                      DType::kFloat32,
                      {256, 256},
                      {x, y},
                      common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
  b.output(b.binary(common::BinaryOp::kMul, sum, scale));
  auto source = hopper_source({Template::kTile, {{"warpgroups", 64064}}, b.finish(), {}});
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_TRUE(source->entry.waits);
  const std::string& text = source->text;
  const std::string wait = "lf_wait_for_earlier();";
  const size_t copier = text.find(wait), others = text.find(wait, copier + 1);
  const size_t multiplying = text.find(wait, others + 1);
  ASSERT_NE(multiplying, std::string::npos) << text;
  EXPECT_EQ(text.find(wait, multiplying + 1), std::string::npos) << text;
  EXPECT_LT(text.find("lf_barrier_fence();"), copier) << text;
  EXPECT_GT(text.find("lf_copy_box"), copier) << text;
  EXPECT_LT(others, text.find("return;")) << "lanes that do nothing end behind a wait";
  EXPECT_GT(text.find("lf_wgmma_bf16"), multiplying) << text;
}

// The same of blocks that keep patches of images: neither pixels and weights nor what epilogues
// load are asked for before the wait of the warp that does it.
TEST(CudaMachines, BlocksOfPatchesSetUpBeforeTheyWait) {
  GraphBuilder b;
  constexpr int64_t kImages = 8, kSize = 56, kChannels = 64;
  NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {kImages, kSize, kSize, kChannels}, "x");
  NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {kChannels, 3, 3, kChannels}, "w");
  const auto i = [](int axis) { return common::Expr::index(axis); };
  const common::Expr row = i(1) + i(3) - common::Expr(1), column = i(2) + i(4) - common::Expr(1);
  const common::View windows{{kImages, kSize, kSize, 3, 3, kChannels},
                             {i(0), row, column, i(5)},
                             {{row, kSize}, {column, kSize}},
                             0};
  b.output(b.raw({common::Op::kContract,
                  DType::kFloat32,
                  {kImages, kSize, kSize, kChannels},
                  {b.view(x, windows), w},
                  common::ContractAttr{{0, 1, 2, 3, 4, 5}, {6, 3, 4, 5}, {0, 1, 2, 6}}}));
  auto source = hopper_source({Template::kTile, {}, b.finish(), {}});
  ASSERT_TRUE(source.ok()) << source.error().message;
  const std::string& text = source->text;
  ASSERT_NE(text.find("full_patch"), std::string::npos) << text;
  const std::string wait = "lf_wait_for_earlier();";
  const size_t copier = text.find(wait), others = text.find(wait, copier + 1);
  const size_t multiplying = text.find(wait, others + 1);
  ASSERT_NE(multiplying, std::string::npos) << text;
  EXPECT_EQ(text.find(wait, multiplying + 1), std::string::npos) << text;
  EXPECT_LT(text.find("lf_barrier_fence();"), copier) << text;
  EXPECT_GT(text.find("lf_copy_pixels"), copier) << text;
  EXPECT_GT(text.find("lf_copy_box"), copier) << text;
  EXPECT_LT(others, text.find("return;")) << "lanes that do nothing end behind a wait";
  EXPECT_GT(text.find("lf_ldmatrix_x4"), multiplying) << text;
}

// The product of a matrix and a vector in bfloat16.
common::Kernel product_of_vector(int64_t rows, int64_t depth) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {depth}, "x");
  NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {rows, depth}, "w");
  NodeId row = b.expand(b.cast(x, DType::kFloat32), {rows, depth});
  NodeId product = b.binary(common::BinaryOp::kMul, row, b.cast(w, DType::kFloat32));
  b.output(b.reduce(common::ReduceOp::kSum, product, {1}));
  return {Template::kLoops, {}, b.finish(), {}};
}

// So few that one wave of blocks computes them.
constexpr int64_t kFewRows = 512;

// Each block asks for the first bytes of its own rows, before it waits.
TEST(CudaMachines, BlocksAskForTheirWeightsBeforeTheyWait) {
  common::Kernel kernel = product_of_vector(kFewRows, 4096);
  kernel.nest = common::kernel_nest(kernel, {common::Machine::kGpu, "cuda-sm_90a", ""}).value();
  ASSERT_TRUE(kernel.nest->prefetch.has_value());
  auto [input, bytes] = *kernel.nest->prefetch;
  EXPECT_EQ(input, 1);
  const common::ThreadGroup& group = kernel.nest->threads;
  int64_t threads = group.threads > 32 ? group.threads : 128;
  int64_t part = threads / group.threads * group.rows * 4096 * 2;
  EXPECT_LE(bytes, part);
  std::string early =
      common::cat("{\n  lf_prefetch<", bytes, ", ", threads, ">(in1, (int64_t)blockIdx.x * ", part,
                  ", ", kFewRows * 4096 * 2, ");\n  lf_wait_for_earlier();\n");
  auto source = CudaCodeGenerator({"cuda-sm_90a"}).generate(kernel);
  ASSERT_TRUE(source.ok());
  EXPECT_NE(source->text.find(early), std::string::npos) << source->text;
  // Where kernels begin when the one before has ended, there is nothing to ask for early.
  source = CudaCodeGenerator({"cuda-sm_80"}).generate(kernel);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->text.find("lf_prefetch"), std::string::npos);
  kernel.nest = common::kernel_nest(kernel, {common::Machine::kGpu, "cuda-sm_80", ""}).value();
  EXPECT_FALSE(kernel.nest->prefetch.has_value());
}

// What fits the first cache is not asked for, nor what blocks of several waves read: those that
// come later would ask twice.
TEST(CudaMachines, OtherMatricesAreNotPrefetched) {
  for (common::Kernel kernel : {product_of_vector(64, 256), product_of_vector(65536, 4096)}) {
    kernel.nest = common::kernel_nest(kernel, {common::Machine::kGpu, "cuda-sm_90a", ""}).value();
    EXPECT_FALSE(kernel.nest->prefetch.has_value());
  }
}

TEST(CudaMachines, PrefetchesThatNoBlockOwnsAreRefused) {
  common::Kernel kernel = product_of_vector(kFewRows, 4096);
  kernel.nest = common::kernel_nest(kernel, {common::Machine::kGpu, "cuda-sm_90a", ""}).value();
  ASSERT_TRUE(kernel.nest->prefetch.has_value());
  common::BlockPrefetch good = *kernel.nest->prefetch;
  for (common::BlockPrefetch wrong :
       {common::BlockPrefetch{7, good.bytes}, common::BlockPrefetch{1, 100},
        common::BlockPrefetch{1, 0}, common::BlockPrefetch{1, int64_t{1} << 40}}) {
    kernel.nest->prefetch = wrong;
    EXPECT_FALSE(CudaCodeGenerator({"cuda-sm_90a"}).generate(kernel).ok())
        << wrong.input << " " << wrong.bytes;
  }
  // A grid without steps has no blocks that could ask.
  kernel = product_of_vector(0, 4096);
  kernel.nest = common::kernel_nest(kernel, {common::Machine::kGpu, "cuda-sm_90a", ""}).value();
  kernel.nest->grid = kernel.nest->shared.extents.size();
  kernel.nest->threads.threads = 64;
  kernel.nest->prefetch = common::BlockPrefetch{1, 128};
  EXPECT_FALSE(CudaCodeGenerator({"cuda-sm_90a"}).generate(kernel).ok());
}

// Fails when threads load an operand that they compute one element after the other, though its rows
// are runs of 16 bytes.
TEST(CudaMachines, ComputedOperandsAreLoadedInRuns) {
  for (int64_t depth : {2048, 84}) {
    GraphBuilder b;
    NodeId x = b.input(InputKind::kUser, DType::kFloat32, {32, depth}, "x");
    NodeId w = b.input(InputKind::kUser, DType::kBfloat16, {1000, depth}, "w");
    x = b.cast(b.binary(common::BinaryOp::kMul, x, b.scalar(DType::kFloat32, 0.02)),
               DType::kBfloat16);
    b.output(b.raw({common::Op::kContract,
                    DType::kFloat32,
                    {32, 1000},
                    {x, w},
                    common::ContractAttr{{0, 2}, {1, 2}, {0, 1}}}));
    auto source = hopper_source({Template::kTile, {}, b.finish(), {}});
    ASSERT_TRUE(source.ok()) << source.error().message;
    const bool is_in_runs = source->text.find("lf_load<float, 8>(in0") != std::string::npos;
    EXPECT_EQ(is_in_runs, depth % 8 == 0) << source->text;
  }
}

}  // namespace
}  // namespace worker
