#include "common/cost/gpu_time.h"

#include <algorithm>
#include <cmath>

namespace common {
namespace {

constexpr double kThreads = 2048;       // of a processor, at most
constexpr double kBlocks = 32;          // of a processor, at most
constexpr double kRegisters = 65536;    // of a processor
constexpr double kLanesPerClock = 128;  // thread instructions that a processor begins in a clock
// Of a processor. Measured on an H200, with products of 2,048 rows and clusters of one block.
constexpr double kL2BytesPerClock = 46;
constexpr double kSharedBytesPerClock = 128;  // of a processor
constexpr double kWarp = 32;

// What blocks take of a processor.
struct BlockSpace {
  double blocks = 1, threads = 0, registers = 0, shared_bytes = 0;
};

BlockSpace space_of(const GpuKernelFacts& f) {
  double threads = std::max(kWarp, std::ceil(f.block_threads / kWarp) * kWarp);
  // Registers are given to warps in steps of 8 a thread.
  double registers = std::max(1.0, std::ceil(f.registers / 8) * 8);
  return {1, threads, registers * threads, f.block_shared_bytes};
}

// Blocks of `f` that have a place on a processor where `taken` is taken.
double places(const GpuKernelFacts& f, const BlockSpace& taken, const GpuMachine& machine) {
  BlockSpace block = space_of(f);
  double most = std::min({kBlocks - taken.blocks, (kThreads - taken.threads) / block.threads,
                          (kRegisters - taken.registers) / block.registers});
  if (block.shared_bytes > 0) {
    most = std::min(most, (machine.shared_bytes - taken.shared_bytes) / block.shared_bytes);
  }
  return std::max(0.0, std::floor(most));
}

double resident_blocks(const GpuKernelFacts& f, const GpuMachine& machine) {
  return std::max(1.0, places(f, {0, 0, 0, 0}, machine));
}

// What the blocks of a kernel that runs alone take of the processor that has most of them.
BlockSpace taken_by(const GpuKernelFacts& f, const GpuMachine& machine) {
  double blocks = std::min(resident_blocks(f, machine),
                           std::ceil(std::max(1.0, f.blocks) / machine.processors));
  BlockSpace block = space_of(f);
  return {blocks, blocks * block.threads, blocks * block.registers, blocks * block.shared_bytes};
}

// Blocks that are there at first.
double first_blocks(const GpuKernelFacts& f, double resident, const GpuMachine& machine) {
  return std::min(std::max(1.0, f.blocks), machine.processors * resident);
}

// Of what a kernel moves, the share that it has to ask for early.
double read_share(const GpuKernelFacts& f) {
  return f.dram_bytes > 0 ? std::max(0.0, 1 - f.written_bytes / f.dram_bytes) : 1;
}

// What fewer blocks take longer to read: those of the last of several waves may ask for less than
// fills memory's pipe.
double last_wave_stretch(const GpuKernelFacts& f, double waves, double resident,
                         const GpuMachine& machine) {
  double share = (waves - std::floor(waves)) / waves;
  double blocks = share * f.blocks;
  double in_flight = blocks * f.block_threads * f.in_flight_bytes;
  double wanted =
      std::min(machine.processors * kGpuPipeBytes, share * f.dram_bytes) * read_share(f);
  // Where whole waves do not fill it either, all of them take as long.
  wanted = std::min(wanted, machine.processors * resident * f.block_threads * f.in_flight_bytes);
  return in_flight >= wanted ? 1 : 1 - share + share * wanted / in_flight;
}

// The part of a block's wait that the work of other blocks does not hide. Blocks begin together, so
// all of them wait at the start and at the end of a kernel. In each later wave a wait is exposed
// more where a processor holds few other blocks, and where blocks are large, because their warps
// wait for each other. Fitted to 523 schedules of the kernels of three decoding steps on an H200
// (`lfarm-bench gpu-schedules`): the schedule chosen by it takes 1.05 of the best one's time, the
// schedule chosen by the longest bound alone 1.20.
double exposed_clocks(const GpuKernelFacts& f, double waves, double resident) {
  constexpr double kAlone = 1.2, kWave = 0.25, kLargeThreads = 256;
  const double large = std::pow(std::max(1.0, f.block_threads / kLargeThreads), 3);
  const double later = std::max(0.0, waves - 1) * kWave * large / std::pow(resident, 1.5);
  return kAlone * std::max(f.wait_clocks, f.longest_wait_clocks) * (1 + later);
}

}  // namespace

GpuKernelFacts one_launch(const GpuKernelFacts& first, const GpuKernelFacts& second) {
  GpuKernelFacts f;
  f.dram_bytes = first.dram_bytes + second.dram_bytes;
  f.written_bytes = first.written_bytes + second.written_bytes;
  f.sector_bytes = first.sector_bytes + second.sector_bytes;
  f.thread_instructions = first.thread_instructions + second.thread_instructions;
  f.single_operations = first.single_operations + second.single_operations;
  f.tensor_operations = first.tensor_operations + second.tensor_operations;
  f.warpgroup_operations = first.warpgroup_operations + second.warpgroup_operations;
  f.shared_bytes_moved = first.shared_bytes_moved + second.shared_bytes_moved;
  f.blocks = first.blocks + second.blocks;
  f.block_threads = std::max(first.block_threads, second.block_threads);
  f.registers = std::max(first.registers, second.registers);
  f.block_shared_bytes = std::max(first.block_shared_bytes, second.block_shared_bytes);
  // Blocks are of the larger size, whose other threads have nothing under way.
  double bytes = first.blocks * first.block_threads * first.in_flight_bytes +
                 second.blocks * second.block_threads * second.in_flight_bytes;
  f.in_flight_bytes = std::max(1.0, bytes / (f.blocks * f.block_threads));
  f.wait_clocks = std::max(first.wait_clocks, second.wait_clocks);
  f.longest_wait_clocks = std::max(first.longest_wait_clocks, second.longest_wait_clocks);
  f.block_prefetch_bytes =
      (first.blocks * first.block_prefetch_bytes + second.blocks * second.block_prefetch_bytes) /
      f.blocks;
  return f;
}

GpuKernelTime gpu_kernel_time(const GpuKernelFacts& f, const GpuMachine& machine) {
  GpuKernelTime t;
  double blocks = std::max(1.0, f.blocks);
  t.resident_blocks = resident_blocks(f, machine);
  // Blocks go to processors in turn, so that a small grid uses each of them a little.
  double busy = std::min(machine.processors, blocks);
  double waves = blocks / (machine.processors * t.resident_blocks);
  t.wave_efficiency = waves <= 1 ? 1 : waves / std::ceil(waves);
  double clocks_per_ns = machine.clock_ghz * busy;
  t.dram_ns = f.dram_bytes / (machine.dram_bytes_per_ns * kGpuDramShare);
  t.l2_ns = f.sector_bytes / (kL2BytesPerClock * clocks_per_ns);
  t.issue_ns = f.thread_instructions / (kLanesPerClock * clocks_per_ns);
  double share = busy / machine.processors;
  t.single_ns = f.single_operations / (machine.single_per_ns * share);
  if (machine.half_tensor_per_ns > 0) {
    t.tensor_ns = (f.tensor_operations / machine.warp_tensor_share + f.warpgroup_operations) /
                  (machine.half_tensor_per_ns * share);
  }
  t.shared_ns = f.shared_bytes_moved / (kSharedBytesPerClock * clocks_per_ns);
  double resident = std::min(t.resident_blocks, std::ceil(blocks / machine.processors));
  t.in_flight_bytes_sm = resident * f.block_threads * f.in_flight_bytes;
  double wanted = std::min(kGpuPipeBytes, f.dram_bytes / busy) * read_share(f);
  if (t.in_flight_bytes_sm < wanted) t.dram_ns *= wanted / t.in_flight_bytes_sm;
  if (waves > 1) t.dram_ns *= last_wave_stretch(f, waves, t.resident_blocks, machine);
  // Waves overlap where many small blocks come and go.
  double clocks = std::max({f.wait_clocks, f.longest_wait_clocks, waves * f.wait_clocks});
  t.latency_ns = clocks / machine.clock_ghz;
  double bound_ns = std::max({t.l2_ns, t.issue_ns, t.single_ns, t.tensor_ns, t.shared_ns});
  t.total_ns = std::max({t.dram_ns, bound_ns, t.latency_ns});
  if (f.tensor_operations + f.warpgroup_operations == 0) {
    double exposed_ns = exposed_clocks(f, waves, resident) / machine.clock_ghz;
    t.total_ns = std::max(t.total_ns, std::max(t.dram_ns, bound_ns) + exposed_ns);
  }
  // A kernel ends with the processor that has most blocks, whether they were there at once or came
  // one after another.
  double most_blocks = std::ceil(blocks / machine.processors);
  double uneven_ns = std::max({t.issue_ns, t.single_ns, t.tensor_ns, t.shared_ns});
  t.total_ns = std::max(t.total_ns, uneven_ns * most_blocks * busy / blocks);
  double early_ns = first_blocks(f, t.resident_blocks, machine) * f.block_prefetch_bytes /
                    (machine.dram_bytes_per_ns * kGpuDramShare);
  t.launch_ns = kGpuLaunchNs - std::min(early_ns, kGpuEarlyShare * kGpuLaunchNs);
  return t;
}

GpuKernelTime gpu_kernel_time_after(const GpuKernelFacts& before, const GpuKernelFacts& facts,
                                    const GpuMachine& machine) {
  GpuKernelTime earlier = gpu_kernel_time(before, machine);
  double idle_ns = earlier.total_ns - earlier.dram_ns;
  double bytes_per_ns = machine.dram_bytes_per_ns * kGpuDramShare;
  double blocks = first_blocks(facts, places(facts, taken_by(before, machine), machine), machine);
  double near =
      std::min({blocks * facts.block_prefetch_bytes, idle_ns * bytes_per_ns, facts.dram_bytes});
  // What came while the kernel before ran does not come during the launch. That is no loss where
  // something else than memory bounds the kernel.
  GpuKernelFacts rest = facts;
  rest.dram_bytes -= near;
  double first = first_blocks(facts, resident_blocks(facts, machine), machine);
  rest.block_prefetch_bytes -= near / first;
  GpuKernelTime apart = gpu_kernel_time(facts, machine);
  GpuKernelTime beside = gpu_kernel_time(rest, machine);
  return beside.total_ns + beside.launch_ns < apart.total_ns + apart.launch_ns ? beside : apart;
}

}  // namespace common
