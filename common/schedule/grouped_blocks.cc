#include "common/schedule/grouped_blocks.h"

#include <algorithm>

#include "common/base/divide_up.h"

namespace common {
namespace {

// A warp's tile, or a warpgroup's, is `tall` rows of `wide` columns; a step is 64 of the summed
// axis.
struct BlockSize {
  GroupedBlocks blocks;
  double tall = 64, wide = 64, stages = 3;
};
constexpr BlockSize kSizes[] = {{{128, 128}, 64, 64, 3},        {{64, 128}, 32, 64, 3},
                                {{64, 64}, 32, 32, 4},          {{32, 128}, 32, 32, 4},
                                {{32, 64}, 16, 32, 4},          {{16, 64}, 16, 16, 6},
                                {{128, 256, true}, 64, 256, 4}, {{128, 128, true}, 64, 128, 5},
                                {{64, 256, true}, 64, 256, 5},  {{64, 128, true}, 64, 128, 5}};
constexpr double kStep = 64, kHalf = 2, kWarp = 32;
// Thread instructions of a run of rows before and after its steps, of a step, and of a chunk of 16
// bytes that is copied. Clocks of a warp alone: until a block knows its runs, until a run's first
// operands are there and its results are stored, and of a step.
constexpr double kFixed = 120, kRun = 150, kStepFixed = 30, kCopy = 5;
constexpr double kBeginClocks = 2000, kRunClocks = 1500, kStepClocks = 300, kProductClocks = 17;
// Of an element of a row that is computed, for each block of columns again: instructions beside its
// operations, and of each of them.
constexpr double kElement = 40, kOperation = 5;
constexpr int64_t kBlocksMin = 64;  // of rows, where there are as many
constexpr double kRegisters = 80;   // beside a thread's sums
// Of warpgroups: instructions of a step beside its copies. Multiplications and additions of a
// processor's tensor cores in a clock.
constexpr double kGroupStep = 40, kOperationsPerClock = 4096;
constexpr double kGroupWarps = 4, kGroupRegisters = 60;

double number(int64_t value) { return static_cast<double>(value); }

const BlockSize& size_of(const GroupedBlocks& blocks) {
  for (const BlockSize& size : kSizes) {
    if (size.blocks == blocks) return size;
  }
  return kSizes[0];
}

}  // namespace

Expr grouped_span(const Expr& rows, int64_t block_rows) {
  const Expr few = floor_div(rows + Expr(kBlocksMin - 1), Expr(kBlocksMin));
  return max(Expr(1), min(few, Expr(block_rows)));
}

GpuKernelFacts grouped_facts(const GroupedShape& shape, const GroupedBlocks& blocks) {
  const BlockSize& size = size_of(blocks);
  const double rows = number(blocks.rows), columns = number(blocks.columns);
  const int64_t span = grouped_span(Expr(shape.rows), blocks.rows).constant();
  const double down = number(divide_up(shape.rows, span));
  const double bytes = number(shape.element_bytes);
  const double across = number(divide_up(shape.columns, blocks.columns));
  const double steps = number(divide_up(shape.depth, static_cast<int64_t>(kStep)));
  // A block has a run for each group that begins in it, and one for its first row. Few rows do not
  // reach every group.
  const double groups = std::min(number(shape.rows), number(shape.groups));
  const double runs = std::min(number(shape.rows), down + groups - 1);
  // A run's rows are the block's first ones; warps without a row of it do not multiply.
  const double mean = number(shape.rows) / runs;
  const double covered = runs * std::clamp(mean + size.tall / 2, size.tall, rows);
  const bool has_groups = blocks.has_warpgroups;
  const double warps = rows / size.tall * columns / size.wide * (has_groups ? kGroupWarps : 1);
  GpuKernelFacts f;
  f.blocks = down * across;
  f.block_threads = warps * kWarp;
  f.registers =
      has_groups ? columns / 2 + kGroupRegisters : size.tall * size.wide / kWarp + kRegisters;
  f.block_shared_bytes = size.stages * (rows + columns) * kStep * kHalf + rows * 8;
  double& operations = has_groups                 ? f.warpgroup_operations
                       : shape.element_bytes == 2 ? f.tensor_operations
                                                  : f.single_operations;
  operations = 2 * covered * across * columns * steps * kStep;
  // Matrices are read for each run, rows once for each block of columns.
  const double matrices = runs * across * columns, whole_rows = number(shape.rows) * across;
  f.sector_bytes = (matrices + whole_rows) * steps * kStep * bytes;
  f.dram_bytes = (groups * number(shape.columns) + number(shape.rows)) * steps * kStep * bytes;
  // Of a warp in a step: products of 16 x 8 x 16, and matrices of 512 bytes.
  const double products = size.tall / 16 * size.wide / 8 * kStep / 16;
  const double read = (size.tall + size.wide) / 16 * kStep / 16;
  const double copies = (rows + columns) * kStep / 8 / f.block_threads;
  const double share = covered / (runs * rows);
  const double step =
      (has_groups ? kGroupStep : kStepFixed + products * share + read) + copies * kCopy;
  // A warpgroup's product reads its rows and all columns of the block.
  const double read_step =
      has_groups ? rows / size.tall * (size.tall + columns) * kStep * kHalf : warps * read * 512;
  f.shared_bytes_moved = covered / rows * across * steps * read_step + f.sector_bytes;
  f.thread_instructions = f.block_threads * across * (down * kFixed + runs * (kRun + steps * step));
  if (shape.row_operations > 0) {
    f.thread_instructions +=
        whole_rows * number(shape.depth) * (kElement + shape.row_operations * kOperation);
  }
  const double each = runs / down;
  const double product_clocks = has_groups
                                    ? 2 * share * rows * columns * kStep / kOperationsPerClock
                                    : kStepClocks + products * share * kProductClocks;
  const double run_clocks = kRunClocks + steps * product_clocks;
  f.wait_clocks = kBeginClocks + each * run_clocks;
  f.longest_wait_clocks = f.wait_clocks;
  f.in_flight_bytes = copies * 16 * (size.stages - 1);
  return f;
}

GroupedBlocks grouped_blocks(const std::vector<WeightedGroups>& shapes, int64_t processors,
                             bool may_group) {
  // Rates of one product decide for all, so that a plan's text depends on its processors alone.
  GpuMachine machine = gpu_machine_of_target("cuda-sm_90a");
  machine.processors = number(std::max<int64_t>(1, processors));
  GroupedBlocks best = kSizes[0].blocks;
  double least = 0;
  for (const BlockSize& size : kSizes) {
    if (size.blocks.has_warpgroups && !may_group) continue;
    double ns = 0;
    for (const WeightedGroups& each : shapes) {
      ns += each.weight * gpu_kernel_time(grouped_facts(each.shape, size.blocks), machine).total_ns;
    }
    if (&size != kSizes && ns >= least) continue;
    least = ns;
    best = size.blocks;
  }
  return best;
}

}  // namespace common
