// How long a GPU takes for one launch of a kernel, from what the kernel moves and computes.
//
// The same formula serves every level of detail: a search knows a kernel's buffers and operations,
// the lowering of a nest knows its accesses, and machine code knows its instructions.
#pragma once

#include "common/cost/gpu_machine.h"

namespace common {

// What a kernel moves.
struct GpuKernelTraffic {
  double dram_bytes = 0;     // moved between device memory and the chip, each byte once
  double written_bytes = 0;  // of these, what is written: nothing waits for it
  double sector_bytes = 0;   // asked of the second cache: 32 for each sector that an access touches
};

struct GpuKernelFacts : GpuKernelTraffic {
  double thread_instructions = 0;   // of all threads
  double single_operations = 0;     // float32 multiply-adds outside of tensor cores, two each
  double tensor_operations = 0;     // on tensor cores, likewise, by single warps
  double warpgroup_operations = 0;  // and by warpgroups
  double shared_bytes_moved = 0;    // between shared memory and registers, in wavefronts of 128
  double blocks = 1;
  double block_threads = 256;
  double registers = 32;          // of a thread
  double block_shared_bytes = 0;  // of shared memory that a block takes
  // Bytes of global loads that one thread has under way before it waits for the first of them; at
  // least one.
  double in_flight_bytes = 16;
  // Clocks that a warp takes from its first instruction to its last where nothing else runs: above
  // all what it waits for loads, one round after the other, and for exchanges with other warps.
  double wait_clocks = 500;
  // The same of the block that takes longest, where blocks differ.
  double longest_wait_clocks = 0;
  // What a block asks the second cache for before it waits for the kernel before.
  double block_prefetch_bytes = 0;
};

struct GpuKernelTime {
  double dram_ns = 0, l2_ns = 0, issue_ns = 0, single_ns = 0, tensor_ns = 0, shared_ns = 0;
  double latency_ns = 0;          // of a lone warp, in each wave of blocks
  double wave_efficiency = 1;     // whole waves over waves begun; 1 where one wave holds all
  double resident_blocks = 1;     // of a processor
  double in_flight_bytes_sm = 0;  // of a processor with all its resident blocks
  double total_ns = 0;            // of the above together, without the launch
  double launch_ns = 0;           // between the kernel before and this one
};

// Clocks until the value of a load from device memory, and from the second cache, is there, where
// memory is idle; waits of loads that fill memory's pipe are in `in_flight_bytes`. Measured on an
// H100 (Luo et al., arXiv:2402.13499, table 4); an A100 has 466 and 262, an RTX 4090 542 and 273.
inline constexpr double kGpuMemoryClocks = 479, kGpuCacheClocks = 263;
// What a processor must have under way to fill memory's pipe: Little's law gives 18 KB at the
// bandwidth of an H100; queues want more.
inline constexpr double kGpuPipeBytes = 32 * 1024;
// A launch within a graph, after another one's end: kernels of one block that do next to nothing
// follow one another in 0.7 to 1.2 us on an H200.
inline constexpr double kGpuLaunchNs = 1000;
// Of that time, the share in which blocks that wait for the kernel before ask for their first
// bytes. They are there as soon as that kernel's last blocks leave room, and the rest goes by until
// its writes are visible. An assumption.
inline constexpr double kGpuEarlyShare = 0.5;
// The share of a data sheet's bandwidth that a stream of reads gets: 4.38 of 4.8 TB/s of an H200.
inline constexpr double kGpuDramShare = 0.91;

// Of kernels whose blocks follow one another in one launch.
GpuKernelFacts one_launch(const GpuKernelFacts& first, const GpuKernelFacts& second);

GpuKernelTime gpu_kernel_time(const GpuKernelFacts& facts, const GpuMachine& machine);
// The same where `before` was launched just before and launches overlap: as many blocks as have a
// place beside its blocks ask for their first bytes while it runs, and get what memory delivers
// while it does not use memory. An assumption: on an H200 whole decoding steps take 2 to 5 % less
// than this adds up to.
GpuKernelTime gpu_kernel_time_after(const GpuKernelFacts& before, const GpuKernelFacts& facts,
                                    const GpuMachine& machine);

}  // namespace common
