#include "common/schedule/attention/flash_blocks.h"

#include <algorithm>

#include "common/base/contains.h"
#include "common/base/divide_up.h"
#include "common/cost/gpu_shared_memory.h"

namespace common {
namespace {

// Of equal ones the first.
constexpr FlashBlocks kBlocks[] = {
    {128, 128, true}, {128, 64, true}, {64, 128, true}, {64, 64, true}, {128, 64}, {128, 32},
    {64, 64},         {64, 32},        {32, 64},        {32, 32},       {16, 64},  {16, 32}};
// Registers of a thread beside its sums and scores, for second parts of probabilities, and all that
// there are.
constexpr int64_t kRegisters = 60, kPartRegisters = 12, kRegistersMax = 255;

// Of warpgroups: rows; elements of a row that are permuted as one; stages of keys and values; what
// a block may have of shared memory, and a thread of registers where there are two and a warp.
constexpr int64_t kGroupRows = 64, kGroupThreads = 128, kGroupElements = 64, kStages = 2,
                  kPattern = 1024;
constexpr int64_t kGroupSharedBytesMax = 226 * 1024, kTwoGroupsRegistersMax = 240;
constexpr int64_t kGroupRegisters = 44;
// Columns that a product may have (worker/codegen/cuda/support/wgmma.cuh).
constexpr int64_t kGroupColumns[] = {64, 96, 128, 192, 256};

// Thread instructions, counted in machine code for sm_90a: of a block's beginning and end, of a row
// of 32 threads in a step, of a step, of a score, of a probability that is multiplied in two parts
// beyond one, of a chunk of 16 bytes that is copied, and of an output.
constexpr double kFixed = 400, kRow = 24, kStep = 40, kScore = 4.5, kTwoParts = 6, kCopy = 2,
                 kComputed = 2.5, kOutput = 3;
// Clocks of a warp alone: until the first keys are there and until its results are stored; of a
// step, whose products, exponentials and products follow one another.
constexpr double kBeginClocks = 1500, kStepClocks = 900, kProductClocks = 10;
// And of an operation that computes a query.
constexpr double kQueryClocks = 1.5;
// The same of warpgroups: instructions of a step; clocks of the beginning and the end, and of a
// column of results; of a score, whose exponential is computed while the former step's values are
// multiplied, and where it is multiplied in two parts. Operations that a processor's tensor cores
// do in a clock.
constexpr double kGroupStep = 100, kGroupBeginClocks = 6200, kColumnClocks = 24;
constexpr double kScoreClocks = 13, kTwoPartsClocks = 27;
constexpr double kOperationsPerClock = 4096;

int64_t padded(int64_t length) { return divide_up(length, 16) * 16; }

int64_t grouped(int64_t length) { return divide_up(length, kGroupElements) * kGroupElements; }

// Registers of a thread: its sums and scores, probabilities of warpgroups, and others.
int64_t registers_of(const FlashShape& shape, const FlashBlocks& blocks, int64_t tiles) {
  if (blocks.warpgroups) {
    return (padded(shape.width) + blocks.keys) / 2 + blocks.keys / (shape.two_parts ? 2 : 4) +
           kGroupRegisters;
  }
  return tiles * (padded(shape.width) + blocks.keys) / 2 + kRegisters +
         (shape.two_parts ? kPartRegisters : 0);
}

}  // namespace

int64_t flash_shared_bytes(const FlashShape& shape, const FlashBlocks& blocks) {
  if (blocks.warpgroups) {
    int64_t depth = grouped(shape.depth), width = grouped(shape.width);
    int64_t panels = 2 * (blocks.rows * depth + kStages * blocks.keys * (depth + width));
    int64_t results = 4 * blocks.rows * (padded(shape.width) + 8);
    return std::max(panels, results) + kPattern;
  }
  int64_t depth = padded(shape.depth), width = padded(shape.width);
  int64_t panels = 2 * (blocks.rows * depth + 2 * blocks.keys * (depth + width));
  int64_t results = 4 * blocks.rows * (width + 8);
  return std::max(panels, results) + kFlashLimitBytes;
}

bool flash_fits(const FlashShape& shape, const FlashBlocks& blocks, int64_t tiles) {
  const int64_t bytes = flash_shared_bytes(shape, blocks);
  const int64_t registers = registers_of(shape, blocks, tiles);
  if (blocks.warpgroups) {
    const int64_t most = blocks.rows > kGroupRows ? kTwoGroupsRegistersMax : kRegistersMax;
    return contains(kGroupColumns, padded(shape.width)) && bytes <= kGroupSharedBytesMax &&
           registers <= most;
  }
  return bytes <= kGpuSharedBytesMax && registers <= kRegistersMax;
}

namespace {

GpuKernelFacts warpgroup_facts(const FlashShape& shape, const FlashBlocks& blocks) {
  constexpr double kHalf = 2, kWarp = 32;
  auto number = [](int64_t value) { return static_cast<double>(value); };
  const double depth = number(padded(shape.depth)), width = number(padded(shape.width));
  const double rows = number(blocks.rows), keys = number(blocks.keys);
  const double parts = shape.two_parts ? 2 : 1, groups = rows / number(kGroupRows);
  const double steps = std::max(1.0, number(shape.keys) * shape.seen / keys);
  GpuKernelFacts f;
  f.blocks = number(shape.batch * divide_up(shape.rows, blocks.rows));
  const double multiplying = number(blocks.warps()) * kWarp;
  f.block_threads = multiplying + kGroupThreads;
  f.registers = 168;
  f.block_shared_bytes = number(flash_shared_bytes(shape, blocks));
  const double all_steps = f.blocks * steps;
  const double operations = 2 * rows * keys * (depth + width * parts);
  f.warpgroup_operations = all_steps * operations;
  // Of a thread, in a step.
  const double scores = keys / 2;
  const double step = kGroupStep + scores * (kScore + (shape.two_parts ? kTwoParts : 0));
  const double computed = rows * depth * shape.query_operations;
  f.thread_instructions = f.blocks * f.block_threads * kFixed + all_steps * multiplying * step +
                          f.blocks * (rows * width * kOutput + computed * kComputed);
  // Boxes are written once. Warpgroups read their rows of queries, and all keys and values.
  const double boxes = keys * (depth + width) * kHalf;
  const double read = groups * kHalf * (depth * (number(kGroupRows) + keys) + parts * keys * width);
  f.shared_bytes_moved = all_steps * (boxes + read) + f.blocks * 2 * rows * width * 4;
  const double row_bytes = number(shape.batch * shape.rows * (shape.depth + shape.width)) * kHalf;
  f.dram_bytes = row_bytes + number(shape.batch * shape.keys * (shape.depth + shape.width)) * kHalf;
  f.sector_bytes = row_bytes + all_steps * boxes;
  f.in_flight_bytes = number(kStages) * boxes / f.block_threads;
  const double score_clocks = 2 * rows * keys * depth / kOperationsPerClock +
                              scores * (kScoreClocks + (shape.two_parts ? kTwoPartsClocks : 0));
  const double step_clocks = std::max(operations / kOperationsPerClock, score_clocks);
  const double begin_clocks =
      kGroupBeginClocks + width * kColumnClocks + computed / multiplying * kQueryClocks;
  f.wait_clocks = begin_clocks + steps * step_clocks;
  f.longest_wait_clocks =
      begin_clocks + std::max(steps, number(divide_up(shape.keys, blocks.keys))) * step_clocks;
  return f;
}

}  // namespace

GpuKernelFacts flash_facts(const FlashShape& shape, const FlashBlocks& blocks) {
  if (blocks.warpgroups) return warpgroup_facts(shape, blocks);
  constexpr double kHalf = 2, kWarp = 32, kMatrixBytes = 512;
  auto number = [](int64_t value) { return static_cast<double>(value); };
  double depth = number(padded(shape.depth)), width = number(padded(shape.width));
  double rows = number(blocks.rows), keys = number(blocks.keys);
  double tiles = number(blocks.tiles()), warps = number(blocks.warps());
  double parts = shape.two_parts ? 2 : 1, passes = shape.two_passes ? 2 : 1;
  double steps = std::max(1.0, number(shape.keys) * shape.seen / keys);
  GpuKernelFacts f;
  f.blocks = number(shape.batch * divide_up(shape.rows, blocks.rows));
  f.block_threads = warps * kWarp;
  f.registers = number(registers_of(shape, blocks, blocks.tiles()));
  f.block_shared_bytes = number(flash_shared_bytes(shape, blocks));
  // Of a warp in a step: products of 16 x 8 x 16, matrices of 512 bytes read from shared memory.
  double scores = tiles * keys / 8 * depth / 16 * passes;
  double sums = tiles * width / 8 * keys / 16 * parts;
  double matrices = (keys / 16 + tiles) * depth / 16 * passes + keys / 16 * width / 16;
  double copies = keys * (depth * passes + width) / 8;
  double elements = tiles * 16 * keys / kWarp;
  double step = kStep + tiles * 2 * kRow + scores + sums + matrices +
                elements * (kScore * passes + (shape.two_parts ? kTwoParts : 0)) +
                copies / f.block_threads * kCopy +
                keys * (depth * passes * shape.key_operations + width * shape.value_operations) *
                    kComputed / f.block_threads;
  double all_steps = f.blocks * steps;
  f.thread_instructions = f.blocks * f.block_threads * kFixed + all_steps * f.block_threads * step +
                          f.blocks * rows * number(shape.width) * kOutput;
  // Queries are computed once, before the first step.
  double computed = rows * depth * shape.query_operations;
  f.thread_instructions += f.blocks * computed * kComputed;
  f.tensor_operations = all_steps * warps * (scores + sums) * 2 * 16 * 8 * 16;
  f.shared_bytes_moved = all_steps * (warps * matrices * kMatrixBytes + copies * 16);
  double row_bytes = number(shape.batch * shape.rows * (shape.depth + shape.width)) * kHalf;
  f.dram_bytes = row_bytes + number(shape.batch * shape.keys * (shape.depth + shape.width)) * kHalf;
  f.sector_bytes = row_bytes + all_steps * copies * 16;
  f.in_flight_bytes = std::max(1.0, copies * 16 / f.block_threads);
  double step_clocks = passes * kStepClocks + (scores + sums) * kProductClocks;
  double begin_clocks = kBeginClocks + computed / f.block_threads * kQueryClocks;
  f.wait_clocks = begin_clocks + steps * step_clocks;
  f.longest_wait_clocks =
      begin_clocks + std::max(steps, number(divide_up(shape.keys, blocks.keys))) * step_clocks;
  return f;
}

std::optional<FlashBlocks> flash_blocks(const FlashShape& seen, const FlashBlocks& given,
                                        int64_t processors) {
  FlashShape shape = seen;
  shape.seen = 1;
  // Rates of one product decide for all, so that a plan's text depends on its processors alone.
  GpuMachine machine = gpu_machine_of_target("cuda-sm_90a");
  machine.processors = static_cast<double>(std::max<int64_t>(1, processors));
  std::optional<FlashBlocks> best;
  double least = 0;
  bool is_wanted = false;
  for (const FlashBlocks& blocks : kBlocks) {
    if (blocks.warpgroups && !shape.warpgroups) continue;
    if (!flash_fits(shape, blocks, blocks.tiles())) continue;
    bool as_wanted = (given.rows == 0 || blocks.rows == given.rows) &&
                     (given.keys == 0 || blocks.keys == given.keys);
    double ns = gpu_kernel_time(flash_facts(shape, blocks), machine).total_ns;
    if (best && (is_wanted > as_wanted || (is_wanted == as_wanted && ns >= least))) continue;
    least = ns;
    best = blocks;
    is_wanted = as_wanted;
  }
  return best;
}

}  // namespace common
