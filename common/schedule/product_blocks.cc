#include "common/schedule/product_blocks.h"

#include <algorithm>
#include <cmath>

namespace common {
namespace {

constexpr ProductBlock kBlocks[] = {{128, 256, 2}, {128, 256, 1}, {128, 128, 2},
                                    {128, 128, 1}, {64, 128, 1},  {64, 64, 1}};
constexpr double kStepDepth = 64, kHalf = 2, kRowsOfGroup = 64, kGroupThreads = 128, kWarp = 32;
constexpr double kStages = 4;
// Thread instructions, counted in machine code for sm_90a: of a step, and of an element from its
// sum to the store.
constexpr double kStep = 43, kElement = 29;
// Clocks of a warp alone: until the first boxes are there, and of an element of its own.
constexpr double kBeginClocks = 1300, kElementClocks = 94;
// Multiplications and additions of a processor's tensor cores in a clock.
constexpr double kOperationsPerClock = 4096;
constexpr double kProductDepth = 16;

}  // namespace

GpuKernelFacts product_facts(const ProductShape& shape, const ProductBlock& block) {
  const auto rows = static_cast<double>(block.rows), columns = static_cast<double>(block.columns);
  const double steps = std::ceil(shape.depth / kStepDepth), groups = rows / kRowsOfGroup;
  const double multiplying = groups * kGroupThreads, elements = rows * columns;
  GpuKernelFacts f;
  f.blocks = shape.batch * std::ceil(shape.rows / (rows * block.cluster)) * block.cluster *
             std::ceil(shape.columns / columns);
  f.block_threads = multiplying + kWarp;
  f.registers = columns / 2 + 32;
  const double stage_bytes = (rows + columns) * kStepDepth * kHalf;
  f.block_shared_bytes = std::max(kStages * stage_bytes, elements * 4);
  const double operations = 2 * elements * kStepDepth * steps;
  f.warpgroup_operations = f.blocks * operations;
  f.thread_instructions = f.blocks * (f.block_threads * steps * kStep + elements * kElement);
  f.sector_bytes = f.blocks * steps * (rows + columns / block.cluster) * kStepDepth * kHalf;
  // Boxes are written once; each warpgroup reads its rows and all columns. Sums go through it, too.
  const double product_bytes = (kRowsOfGroup + columns) * kProductDepth * kHalf;
  f.shared_bytes_moved =
      f.blocks * (steps * (stage_bytes + groups * kStepDepth / kProductDepth * product_bytes) +
                  2 * elements * 4);
  f.in_flight_bytes = kStages * stage_bytes / f.block_threads;
  f.wait_clocks =
      kBeginClocks + operations / kOperationsPerClock + elements / multiplying * kElementClocks;
  return f;
}

double products_ns(const std::vector<WeightedTile>& shapes, const ProductBlock& block,
                   const GpuMachine& machine) {
  double ns = 0;
  for (const WeightedTile& each : shapes) {
    auto number = [](int64_t value) { return static_cast<double>(value); };
    const ProductShape shape{number(each.shape.batch), number(each.shape.rows),
                             number(each.shape.columns), number(each.shape.steps)};
    GpuKernelFacts f = product_facts(shape, block);
    f.dram_bytes = operand_bytes(each.shape);
    f.thread_instructions +=
        shape.batch * shape.rows * shape.columns * each.shape.result.instructions;
    ns += each.weight * gpu_kernel_time(f, machine).total_ns;
  }
  return ns;
}

std::optional<GpuKernelFacts> product_facts(const ProductShape& shape, const GpuKernelFacts& other,
                                            const GpuMachine& machine) {
  if (!warpgroups_multiply(machine.target)) return std::nullopt;
  std::optional<GpuKernelFacts> best;
  double least = 0;
  for (const ProductBlock& block : kBlocks) {
    GpuKernelFacts f = product_facts(shape, block);
    f.dram_bytes = other.dram_bytes;
    f.thread_instructions += other.thread_instructions;
    double ns = gpu_kernel_time(f, machine).total_ns;
    if (best && ns >= least) continue;
    best = f;
    least = ns;
  }
  return best;
}

}  // namespace common
