// What follows from how many processors a GPU has: if these fail, plans for small GPUs are cut into
// as many parts as those for large ones.
#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"
#include "common/schedule/gpu_splits.h"
#include "common/schedule/kernels/kernel_nest.h"

namespace common {
namespace {

constexpr std::string_view kLarge = "NVIDIA H100 80GB HBM3, 132 SMs, 80 GiB, 700 W";
constexpr std::string_view kSmall = "NVIDIA L4, 58 SMs, 22 GiB, 72 W";

TEST(GpuSplits, FillTheMachineOnce) {
  EXPECT_EQ(gpu_splits(4, 100000, 64, 0, {}, 132), 33);
  EXPECT_EQ(gpu_splits(4, 100000, 64, 0, {}, 58), 14);
  EXPECT_EQ(gpu_splits(200, 100000, 64, 0, {}, 132), 1);
  EXPECT_EQ(gpu_splits(4, 128, 64, 0, {}, 132), 2) << "no more than there are steps";
  EXPECT_EQ(gpu_splits(4, 100000, 64, 7, {}, 58), 7) << "what is asked for";
}

// Blocks that share each of four long sums, on a machine of the class.
int64_t blocks_of_sums(std::string_view target, std::string_view machine_class) {
  GraphBuilder b;
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {4, 1 << 20}, "x");
  b.output(b.reduce(ReduceOp::kSum, x, {1}));
  auto nest = kernel_nest({Template::kLoops, {}, b.finish(), {}},
                          NestMachine(Machine::kGpu, target, machine_class));
  EXPECT_TRUE(nest.ok() && nest->has_value());
  return (*nest)->threads.blocks;
}

TEST(KernelNests, SplitLongSumsForTheirMachine) {
  EXPECT_EQ(blocks_of_sums("cuda-sm_90a", kLarge), 33);
  EXPECT_EQ(blocks_of_sums("cuda-sm_89", kSmall), 14);
  EXPECT_EQ(blocks_of_sums("cuda-sm_90a", "NVIDIA H100 80GB HBM3 MIG 2g.20gb, 32 SMs, 20 GiB"), 8)
      << "a slice of a device";
  EXPECT_EQ(blocks_of_sums("cuda-sm_90a", ""), 33) << "typical of the target";
}

TEST(KernelNests, AKindOfMachineStandsForATypicalOne) {
  EXPECT_EQ(NestMachine(Machine::kCpu).vectors.lanes, 16);
  EXPECT_EQ(NestMachine(Machine::kCpu, "cpu-x86_64-avx2", "").vectors.lanes, 8);
  EXPECT_EQ(NestMachine(Machine::kGpu).gpu.name, gpu_machine_of_target({}).name);
}

}  // namespace
}  // namespace common
