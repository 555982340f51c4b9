#include "common/schedule/flash_blocks.h"

#include <algorithm>

#include "common/base/divide_up.h"

namespace common {
namespace {

// What every GPU with tensor cores for bfloat16 gives one block.
constexpr int64_t kSharedBytesMax = 99 * 1024;
constexpr int64_t kRows[] = {128, 64, 32, 16};  // of equal ones the first
constexpr int64_t kKeys[] = {64, 32};
// Registers of a thread beside its sums and scores, for second parts of probabilities, and all that
// there are.
constexpr int64_t kRegisters = 60, kPartRegisters = 12, kRegistersMax = 255;

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

int64_t padded(int64_t length) { return divide_up(length, 16) * 16; }

// Registers of a thread: its sums and scores, and others.
int64_t registers_of(const FlashShape& shape, const FlashBlocks& blocks) {
  return blocks.tiles() * (padded(shape.width) + blocks.keys) / 2 + kRegisters +
         (shape.two_parts ? kPartRegisters : 0);
}

bool fits(const FlashShape& shape, const FlashBlocks& blocks) {
  return flash_shared_bytes(shape, blocks) <= kSharedBytesMax &&
         registers_of(shape, blocks) <= kRegistersMax;
}

}  // namespace

int64_t flash_shared_bytes(const FlashShape& shape, const FlashBlocks& blocks) {
  int64_t depth = padded(shape.depth), width = padded(shape.width);
  int64_t panels = 2 * (blocks.rows * depth + 2 * blocks.keys * (depth + width));
  int64_t results = 4 * blocks.rows * (width + 8);
  return std::max(panels, results) + kFlashLimitBytes;
}

GpuKernelFacts flash_facts(const FlashShape& shape, const FlashBlocks& blocks) {
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
  f.registers = number(registers_of(shape, blocks));
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
  for (int64_t rows : kRows) {
    for (int64_t keys : kKeys) {
      FlashBlocks blocks{rows, keys};
      if (!fits(shape, blocks)) continue;
      bool as_wanted =
          (given.rows == 0 || rows == given.rows) && (given.keys == 0 || keys == given.keys);
      double ns = gpu_kernel_time(flash_facts(shape, blocks), machine).total_ns;
      if (best && (is_wanted > as_wanted || (is_wanted == as_wanted && ns >= least))) continue;
      least = ns;
      best = blocks;
      is_wanted = as_wanted;
    }
  }
  return best;
}

}  // namespace common
