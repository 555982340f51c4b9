#include "common/schedule/attention/decode_blocks.h"

#include <algorithm>

#include "common/base/divide_up.h"

namespace common {
namespace {

constexpr int64_t kSplitsMax = 64;
constexpr int64_t kGivenWarpsMax = 4;
constexpr int64_t kWarps[] = {4, 8, 2, 1};  // of equal ones the first
// Bytes of one part that threads may leave in shared memory, of all the block's warps.
constexpr int64_t kPartBytesMax = 96 * 1024;

// Thread instructions, counted in machine code for sm_90a: of a block's beginning and end, of an
// element of a computed query, of a step and its chunks of keys and of values, of four sums of a
// warp's and of a block's part.
constexpr double kFixed = 450, kQuery = 30, kStep = 130, kKeyChunk = 10, kValueChunk = 36;
constexpr double kWarpPart = 12, kBlockPart = 9, kSums = 30;
constexpr double kFixedRegisters = 40;
// Clocks of a warp alone, along the machine code of three such kernels: until its query is there;
// of a step, beside its loads; to meet a block's other warps; to leave a part where all see it (two
// fences and a count in the second cache); to sum what was left, and to store the result.
constexpr double kQueryClocks = 1000, kStepClocks = 750, kMeetClocks = 650, kLeaveClocks = 900,
                 kMergeClocks = 700, kStoreClocks = 300;

int64_t steps_of(const DecodeShape& shape, const DecodeBlocks& blocks) {
  return divide_up(shape.keys, blocks.splits * blocks.warps * kDecodeWarpKeys);
}

}  // namespace

DecodeBlocks given_decode_blocks(int64_t block_keys, int64_t splits) {
  if (block_keys == 0) return {0, splits};
  return {std::clamp<int64_t>(block_keys / kDecodeWarpKeys, 1, kGivenWarpsMax), splits};
}

GpuKernelFacts decode_facts(const DecodeShape& shape, const DecodeBlocks& blocks) {
  constexpr double kHalf = 2, kFloat = 4, kChunkBytes = 16;
  auto number = [](int64_t value) { return static_cast<double>(value); };
  int64_t threads = blocks.warps * 32;
  // Chunks of 16 bytes that a lane has of a step's keys and values: 16 keys for 4 lanes a key, and
  // for 8.
  int64_t depth_chunks = divide_up(shape.depth, 32), width_chunks = divide_up(shape.width, 64);
  double step_bytes = number(2 * depth_chunks + 4 * width_chunks) * kChunkBytes;
  double steps = number(steps_of(shape, blocks));
  double sums = number(divide_up(shape.rows * shape.width, 4 * threads));
  double part_bytes = number(shape.rows * (shape.width + 2)) * kFloat;
  GpuKernelFacts f;
  f.blocks = number(shape.batch * blocks.splits);
  f.block_threads = number(threads);
  f.dram_bytes = number(shape.batch * shape.keys * (shape.depth + shape.width)) * kHalf;
  f.sector_bytes = f.dram_bytes + (blocks.splits > 1 ? 2 * part_bytes * f.blocks : 0);
  double all_threads = f.blocks * f.block_threads;
  f.thread_instructions =
      all_threads *
      (kFixed + kQuery * number(divide_up(shape.rows * shape.depth, threads)) +
       steps * (kStep + kKeyChunk * number(depth_chunks) + kValueChunk * number(width_chunks)) +
       sums * (kWarpPart * number(blocks.warps) + kSums));
  // One block of those that share keys merges their parts: a share of a part for each.
  if (blocks.splits > 1) f.thread_instructions += all_threads * sums * kBlockPart;
  f.tensor_operations =
      number(shape.batch * shape.keys * (2 * shape.depth + 4 * shape.width)) * 2 * number(8);
  f.registers = kFixedRegisters + step_bytes / kFloat + number(16 * width_chunks);
  f.block_shared_bytes = number(blocks.warps) * part_bytes + number(shape.rows * shape.depth) * 2;
  f.in_flight_bytes = step_bytes;
  f.block_prefetch_bytes =
      number(std::min(blocks.warps * kDecodeWarpKeys, shape.keys) * (shape.depth + shape.width)) *
      kHalf;
  f.wait_clocks = kQueryClocks + steps * (kGpuMemoryClocks + kStepClocks) + kStoreClocks;
  if (blocks.warps > 1) f.wait_clocks += kMeetClocks;
  if (blocks.splits > 1) {
    double merged = number(blocks.splits) * sums * kChunkBytes;
    f.wait_clocks += kLeaveClocks + kMergeClocks + merged / step_bytes * kGpuMemoryClocks;
  }
  return f;
}

DecodeBlocks decode_blocks(const std::vector<WeightedShape>& shapes, const DecodeBlocks& given,
                           int64_t processors) {
  // Rates of one product decide for all, so that a plan's text depends on its processors alone.
  GpuMachine machine = gpu_machine_of_target("cuda-sm_90a");
  machine.processors = static_cast<double>(std::max<int64_t>(1, processors));
  // Rows and widths are the same in all of them.
  const DecodeShape& any = shapes.front().shape;
  int64_t keys = 1;
  for (const WeightedShape& each : shapes) keys = std::max(keys, each.shape.keys);
  DecodeBlocks best;
  double least = 0;
  for (int64_t warps : kWarps) {
    if (given.warps != 0 && warps != given.warps) continue;
    if (warps > 1 && warps * any.rows * any.width * 4 > kPartBytesMax) continue;
    int64_t steps = divide_up(keys, warps * kDecodeWarpKeys);
    for (int64_t splits = 1; splits <= std::min(kSplitsMax, steps); ++splits) {
      bool is_last = splits == std::min(kSplitsMax, steps);
      if (given.splits != 0 && splits != given.splits && !(is_last && splits < given.splits)) {
        continue;
      }
      // The same steps a block with fewer blocks, unless the schedule says how many.
      if (given.splits == 0 && divide_up(steps, divide_up(steps, splits)) != splits) continue;
      DecodeBlocks blocks{warps, splits};
      double ns = 0;
      for (const WeightedShape& each : shapes) {
        ns += each.weight * gpu_kernel_time(decode_facts(each.shape, blocks), machine).total_ns;
      }
      if (least > 0 && ns >= least) continue;
      least = ns;
      best = blocks;
    }
  }
  return best;
}

DecodeBlocks decode_blocks(const DecodeShape& shape, const DecodeBlocks& given,
                           int64_t processors) {
  return decode_blocks(std::vector<WeightedShape>{{shape, 1}}, given, processors);
}

}  // namespace common
