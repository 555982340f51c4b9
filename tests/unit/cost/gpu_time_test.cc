// The formula of a GPU kernel's time: every term can be the one that decides, and the table of
// products is found by the names that drivers give.
#include "common/cost/gpu_time.h"

#include <gtest/gtest.h>

#include <string>

#include "common/cost/gpu_machine.h"

namespace common {
namespace {

const GpuMachine& h100() { return gpu_machine_of_target("cuda-sm_90a"); }

// A gigabyte is read once, 64 bytes a thread at a time, by blocks that fill the device.
GpuKernelFacts stream() {
  GpuKernelFacts f;
  f.dram_bytes = f.sector_bytes = 1e9;
  f.blocks = 132 * 64;
  f.in_flight_bytes = 64;
  f.thread_instructions = 1e9;
  return f;
}

TEST(GpuTime, AStreamTakesWhatMemoryGives) {
  GpuKernelTime t = gpu_kernel_time(stream(), h100());
  EXPECT_NEAR(t.dram_ns, 1e9 / (3350 * kGpuDramShare), 1);
  EXPECT_GT(t.total_ns, t.dram_ns);
  EXPECT_LT(t.total_ns, 1.01 * t.dram_ns);
  EXPECT_DOUBLE_EQ(t.in_flight_bytes_sm, 8 * 256 * 64);
}

// What all blocks wait for together adds to the stream's time; of later waves the more, the fewer
// and larger the blocks of a processor are. Tensor cores work on what came before.
TEST(GpuTime, WaitsAreHiddenByOtherBlocksAlone) {
  GpuKernelFacts f = stream();
  f.wait_clocks = 5000;
  auto exposed = [](const GpuKernelFacts& facts) {
    GpuKernelTime t = gpu_kernel_time(facts, h100());
    return t.total_ns - t.dram_ns;
  };
  const double wait_ns = f.wait_clocks / h100().clock_ghz;
  f.blocks = 132;
  EXPECT_NEAR(exposed(f), 1.2 * wait_ns, 1e-6);
  f.blocks = 8 * 132 * 4;
  const double of_small = exposed(f);
  EXPECT_GT(of_small, 1.2 * wait_ns);
  f.blocks = 2 * 132 * 4;
  f.block_threads = 1024;
  f.in_flight_bytes = 64;
  EXPECT_GT(exposed(f), 2 * of_small);
  f.warpgroup_operations = 1;
  EXPECT_DOUBLE_EQ(exposed(f), 0);
}

// A kernel that mostly writes has little to ask for early.
TEST(GpuTime, NothingWaitsForWhatIsWritten) {
  GpuKernelFacts f = stream();
  f.in_flight_bytes = 4;
  const double read_ns = gpu_kernel_time(f, h100()).dram_ns;
  EXPECT_GT(read_ns, 2 * gpu_kernel_time(stream(), h100()).dram_ns);
  f.written_bytes = 0.8 * f.dram_bytes;
  EXPECT_DOUBLE_EQ(gpu_kernel_time(f, h100()).dram_ns, gpu_kernel_time(stream(), h100()).dram_ns);
}

TEST(GpuTime, EveryLimitCanDecide) {
  struct Case {
    const char* name;
    double GpuKernelFacts::*fact;
    double value;
    double GpuKernelTime::*time;
  };
  const Case cases[] = {
      {"second cache", &GpuKernelFacts::sector_bytes, 1e11, &GpuKernelTime::l2_ns},
      {"issue", &GpuKernelFacts::thread_instructions, 1e12, &GpuKernelTime::issue_ns},
      {"float32", &GpuKernelFacts::single_operations, 1e12, &GpuKernelTime::single_ns},
      {"tensor cores", &GpuKernelFacts::tensor_operations, 1e13, &GpuKernelTime::tensor_ns},
      {"shared memory", &GpuKernelFacts::shared_bytes_moved, 1e12, &GpuKernelTime::shared_ns},
      {"latency", &GpuKernelFacts::wait_clocks, 1e7, &GpuKernelTime::latency_ns}};
  for (const Case& c : cases) {
    GpuKernelFacts f = stream();
    f.*c.fact = c.value;
    GpuKernelTime t = gpu_kernel_time(f, h100());
    EXPECT_GE(t.total_ns, t.*c.time) << c.name;
    EXPECT_GT(t.*c.time, t.dram_ns) << c.name;
    EXPECT_GT(t.total_ns, gpu_kernel_time(stream(), h100()).total_ns) << c.name;
  }
}

// Blocks of several waves take their mean time each; the longest counts once.
TEST(GpuTime, TheLongestBlockCountsOnce) {
  GpuKernelFacts f = stream();
  f.dram_bytes = f.sector_bytes = f.thread_instructions = 0;
  f.blocks = 4 * 8 * 132;
  f.wait_clocks = 1000;
  double mean = gpu_kernel_time(f, h100()).latency_ns;
  EXPECT_DOUBLE_EQ(mean, 4 * 1000 / h100().clock_ghz);
  f.longest_wait_clocks = 3000;
  EXPECT_DOUBLE_EQ(gpu_kernel_time(f, h100()).latency_ns, mean);
  f.longest_wait_clocks = 9000;
  EXPECT_DOUBLE_EQ(gpu_kernel_time(f, h100()).latency_ns, 9000 / h100().clock_ghz);
}

// Memory works for the blocks that wait, for a share of the launch at most; so do whole grids of
// two parts of which one asks.
TEST(GpuTime, PrefetchesShortenTheLaunch) {
  GpuKernelFacts f = stream();
  EXPECT_DOUBLE_EQ(gpu_kernel_time(f, h100()).launch_ns, kGpuLaunchNs);
  f.block_prefetch_bytes = 1024;
  double asked = 8.0 * 132 * 1024;
  EXPECT_NEAR(gpu_kernel_time(f, h100()).launch_ns, kGpuLaunchNs - asked / (3350 * kGpuDramShare),
              1e-6);
  GpuKernelFacts both = one_launch(f, stream());
  EXPECT_DOUBLE_EQ(both.block_prefetch_bytes, 512);
  f.block_prefetch_bytes = 1e6;
  EXPECT_DOUBLE_EQ(gpu_kernel_time(f, h100()).launch_ns, kGpuLaunchNs * (1 - kGpuEarlyShare));
}

// A kernel that memory bounds, after one that leaves memory idle for a microsecond: what its blocks
// ask for is there, as far as they have a place beside the other's blocks.
TEST(GpuTime, PrefetchesFillWhatTheKernelBeforeLeavesIdle) {
  GpuKernelFacts before = stream();
  before.dram_bytes = before.sector_bytes = before.thread_instructions = 0;
  before.blocks = 14;
  before.wait_clocks = 1000 * h100().clock_ghz;
  GpuKernelFacts f = stream();
  f.dram_bytes = f.sector_bytes = f.thread_instructions = 33.5e6;
  f.block_prefetch_bytes = 16 * 1024;
  auto total = [](const GpuKernelTime& t) { return t.total_ns + t.launch_ns; };
  double alone = total(gpu_kernel_time(f, h100()));
  const double idle_ns = gpu_kernel_time(before, h100()).total_ns;
  EXPECT_NEAR(total(gpu_kernel_time_after(before, f, h100())), alone - idle_ns, 1e-6);

  GpuKernelFacts busy = before;
  busy.wait_clocks = 0;
  busy.dram_bytes = 1000 * h100().dram_bytes_per_ns * kGpuDramShare;
  EXPECT_NEAR(total(gpu_kernel_time_after(busy, f, h100())), alone, 1e-6);

  GpuKernelFacts full = before;
  full.blocks = 132;
  full.block_shared_bytes = h100().shared_bytes;
  f.block_shared_bytes = 1024;
  EXPECT_NEAR(total(gpu_kernel_time_after(full, f, h100())), alone, 1e-6);
}

// Products of single warps take longer where those of warpgroups reach the peak.
TEST(GpuTime, WarpgroupsMultiplyFaster) {
  GpuKernelFacts f = stream();
  f.tensor_operations = 1e12;
  double warps = gpu_kernel_time(f, h100()).tensor_ns;
  std::swap(f.tensor_operations, f.warpgroup_operations);
  EXPECT_DOUBLE_EQ(gpu_kernel_time(f, h100()).tensor_ns, warps * h100().warp_tensor_share);
  EXPECT_LT(h100().warp_tensor_share, 1);
  EXPECT_EQ(gpu_machine_of_target("cuda-sm_80").warp_tensor_share, 1);
}

// Bytes that are there early are no gain to a kernel that waits for something else, and no loss.
TEST(GpuTime, PrefetchesDoNotLengthenALaunch) {
  GpuKernelFacts before = stream();
  before.dram_bytes = 0;
  before.wait_clocks = 4000;
  GpuKernelFacts f = stream();
  f.dram_bytes = f.sector_bytes = f.thread_instructions = 1e6;
  f.wait_clocks = 8000;
  f.block_prefetch_bytes = 2048;
  GpuKernelTime alone = gpu_kernel_time(f, h100());
  GpuKernelTime after = gpu_kernel_time_after(before, f, h100());
  EXPECT_DOUBLE_EQ(after.total_ns + after.launch_ns, alone.total_ns + alone.launch_ns);
}

TEST(GpuTime, RegistersAndSharedMemoryBoundResidentBlocks) {
  GpuKernelFacts f = stream();
  EXPECT_EQ(gpu_kernel_time(f, h100()).resident_blocks, 8);
  f.registers = 128;
  EXPECT_EQ(gpu_kernel_time(f, h100()).resident_blocks, 2);
  f.registers = 32;
  f.block_shared_bytes = 100 * 1024;
  EXPECT_EQ(gpu_kernel_time(f, h100()).resident_blocks, 2);
  f.block_threads = 1024;
  f.block_shared_bytes = 0;
  EXPECT_EQ(gpu_kernel_time(f, h100()).resident_blocks, 2);
}

TEST(GpuTime, ALastWaveThatIsNotFullCosts) {
  GpuKernelFacts f = stream();
  f.thread_instructions = 1e12;
  f.blocks = 132 * 8;
  GpuKernelTime full = gpu_kernel_time(f, h100());
  EXPECT_EQ(full.wave_efficiency, 1);
  f.blocks = 132 * 8 + 1;
  GpuKernelTime ragged = gpu_kernel_time(f, h100());
  EXPECT_LT(ragged.wave_efficiency, 0.6);
  // The last block has a processor for itself.
  EXPECT_GT(ragged.total_ns, 1.1 * full.total_ns);
  EXPECT_LT(ragged.total_ns, 1.2 * full.total_ns);
}

// 68 of 132 processors have one block of 200, the others two.
TEST(GpuTime, TheProcessorWithMostBlocksIsWaitedFor) {
  GpuKernelFacts f = stream();
  f.thread_instructions = 1e12;
  f.blocks = 200;
  GpuKernelTime time = gpu_kernel_time(f, h100());
  EXPECT_GE(time.resident_blocks, 2);
  EXPECT_NEAR(time.total_ns, time.issue_ns * 264 / 200, 1);
  f.blocks = 100;
  time = gpu_kernel_time(f, h100());
  EXPECT_NEAR(time.total_ns, time.issue_ns, 1000);
}

TEST(GpuTime, AFewBlocksUseAFewProcessors) {
  GpuKernelFacts f = stream();
  f.blocks = 1;
  EXPECT_NEAR(gpu_kernel_time(f, h100()).issue_ns, 132 * gpu_kernel_time(stream(), h100()).issue_ns,
              1);
}

TEST(GpuMachine, ProductsAreFoundByTheDriversName) {
  EXPECT_EQ(find_gpu_machine("NVIDIA H100 80GB HBM3")->name, "H100");
  EXPECT_EQ(find_gpu_machine("NVIDIA H100 PCIe")->name, "H100 PCIe");
  EXPECT_EQ(find_gpu_machine("NVIDIA L40S")->name, "L40S");
  EXPECT_EQ(find_gpu_machine("NVIDIA L4")->name, "L4");
  EXPECT_EQ(find_gpu_machine("NVIDIA A100-SXM4-80GB")->name, "A100");
  EXPECT_EQ(find_gpu_machine("GeForce 8800"), nullptr);
}

TEST(GpuMachine, ClassesSayHowManyProcessorsThereAre) {
  GpuMachine l4 = gpu_machine_of_class("cuda-sm_89", "NVIDIA L4, 58 SMs, 22 GiB, 72 W");
  EXPECT_EQ(l4.name, "L4");
  EXPECT_EQ(l4.processors, 58);
  GpuMachine slice =
      gpu_machine_of_class("cuda-sm_90a", "NVIDIA H100 80GB HBM3 MIG 1g.10gb, 16 SMs, 10 GiB");
  EXPECT_EQ(slice.name, "H100");
  EXPECT_EQ(slice.processors, 16);
  // A product that the table lacks, and texts that say nothing.
  GpuMachine other = gpu_machine_of_class("cuda-sm_86", "NVIDIA A2, 10 SMs, 15 GiB, 60 W");
  EXPECT_EQ(other.target, "cuda-sm_86");
  EXPECT_EQ(other.processors, 10);
  for (std::string_view text : {"", " SMs", "NVIDIA, x SMs"}) {
    EXPECT_EQ(gpu_machine_of_class("cuda-sm_80", text).processors, 108) << text;
  }
}

TEST(GpuMachine, EveryTargetHasATypicalProduct) {
  EXPECT_EQ(gpu_machine_of_target("cuda-sm_90a").name, "H100 SXM");
  EXPECT_EQ(gpu_machine_of_target("cuda-sm_80").target, "cuda-sm_80");
  EXPECT_EQ(gpu_machine_of_target("cuda-sm_100").name, "B200");
  // Of an architecture that the table lacks the nearest older one stands in.
  EXPECT_EQ(gpu_machine_of_target("cuda-sm_87").target, "cuda-sm_86");
  EXPECT_EQ(gpu_machine_of_target("cuda").name, "H100 SXM");
  for (const GpuMachine& machine : gpu_machines()) {
    EXPECT_GT(machine.dram_bytes_per_ns, 0) << machine.name;
    EXPECT_EQ(find_gpu_machine(std::string(machine.name))->name, machine.name);
  }
}

}  // namespace
}  // namespace common
