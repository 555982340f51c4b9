#include "common/schedule/tile_blocks.h"

#include <algorithm>

#include "common/base/divide_up.h"
#include "common/ir/hlir/sizes.h"

namespace common {
namespace {

// None takes more shared memory than 99 KiB, which every GPU with such tensor cores has. Of equal
// ones the first.
constexpr TileBlocks kBlocks[] = {
    {128, 128, 64, 64, 64, 3}, {128, 64, 64, 64, 32, 3}, {64, 128, 64, 32, 64, 3},
    {64, 64, 64, 32, 32, 4},   {32, 128, 64, 32, 32, 4}, {128, 32, 64, 32, 32, 4},
    {32, 64, 64, 16, 32, 4},   {64, 32, 64, 32, 16, 4},  {32, 32, 64, 16, 16, 6},
    {16, 64, 64, 16, 16, 6},   {64, 16, 64, 16, 16, 6},  {16, 32, 64, 16, 16, 6},
    {32, 16, 64, 16, 16, 6}};
constexpr int64_t kSplits[] = {1, 2, 4, 8, 16, 32};
constexpr int64_t kPartSteps = 4;  // of a block that shares a k, at least
constexpr double kElement = 2;     // bytes of an operand's element
constexpr double kWarp = 32, kProduct = 2 * 16 * 8 * 16, kMatrixBytes = 512;

// Thread instructions, counted in machine code for sm_90a: of a block's beginning and end, of a
// step, of a chunk that is copied, of four matrices that are read, of a result, of a sum that is
// left for another block, and of one that is added there.
constexpr double kFixed = 200, kStep = 60, kCopy = 8, kMatrices = 3, kResult = 7, kLeft = 2,
                 kAdded = 2, kRounded = 3;
// Clocks of a warp alone, by the walk through the same code: until the first operands are there, of
// a step, of a product, of a chunk, of a load in a step and of one that waits for the one before,
// of a result, of a sum that is left and of one that is added.
constexpr double kBeginClocks = 1500, kStepClocks = 240, kProductClocks = 7, kCopyClocks = 12,
                 kLoadClocks = 32, kCallClocks = 150, kResultClocks = 20, kLeaveClocks = 4,
                 kAddClocks = 14, kJoinClocks = 1500;
// Registers of a thread beside its sums and fragments, of a chunk that is computed, and all that
// there are.
constexpr double kRegisters = 50, kChunkRegisters = 4, kRegistersMax = 255;

double number(int64_t value) { return static_cast<double>(value); }

int64_t tiles_of(const TileShape& shape, const TileBlocks& blocks) {
  return shape.batch * divide_up(shape.rows, blocks.rows) *
         divide_up(shape.columns, blocks.columns);
}

// Of a thread in a step of k, for one operand.
struct OperandStep {
  double instructions = 0, clocks = 0, chunks = 0, bytes = 0;
};

OperandStep operand_step(const TileOperand& operand, int64_t width, const TileBlocks& blocks) {
  OperandStep step;
  double elements = number(width * blocks.depth) / number(blocks.threads());
  step.chunks = elements / 8;
  if (operand.is_copied) {
    step.instructions = step.chunks * kCopy;
    step.clocks = step.chunks * kCopyClocks;
    step.bytes = elements * kElement;
    return step;
  }
  const ElementWork& work = operand.element;
  step.instructions = elements * (work.instructions + kRounded) + step.chunks * kCopy;
  step.clocks = work.has_calls ? elements * (kGpuMemoryClocks + kCallClocks)
                               : elements * work.loads * kLoadClocks;
  // Neighbours share sectors, but each is asked for by itself.
  step.bytes = elements * work.load_bytes;
  return step;
}

}  // namespace

bool is_tile_block(const TileBlocks& blocks) {
  return std::find(std::begin(kBlocks), std::end(kBlocks), blocks) != std::end(kBlocks);
}

int64_t tile_shared_bytes(const TileBlocks& blocks) {
  int64_t stage = (blocks.rows + blocks.columns) * blocks.depth * 2;
  return std::max(blocks.stages * stage, blocks.rows * (blocks.columns + kTilePad) * 4);
}

GpuKernelFacts tile_facts(const TileShape& shape, const TileBlocks& blocks, int64_t processors) {
  int64_t tiles = tiles_of(shape, blocks);
  int64_t steps = divide_up(shape.steps, blocks.depth);
  int64_t parts = std::clamp<int64_t>(kTileBlocksSm * processors / tiles, 1, blocks.splits);
  int64_t part_steps = divide_up(steps, parts);
  parts = divide_up(steps, part_steps);
  double threads = number(blocks.threads()), warps = threads / kWarp;
  OperandStep left = operand_step(shape.left, blocks.rows, blocks);
  OperandStep right = operand_step(shape.right, blocks.columns, blocks);
  // Of a warp in a step.
  double deep = number(blocks.depth) / 16;
  double products = deep * number(blocks.tall) / 16 * number(blocks.wide) / 8;
  double matrices = deep * (number(blocks.tall) / 16 + number(blocks.wide) / 16);
  double sums = number(blocks.sums());
  GpuKernelFacts f;
  f.blocks = number(tiles * parts);
  f.block_threads = threads;
  f.block_shared_bytes = number(tile_shared_bytes(blocks));
  double chunks =
      (shape.left.is_copied ? 0 : left.chunks) + (shape.right.is_copied ? 0 : right.chunks);
  f.registers = std::min(kRegistersMax, kRegisters + 1.5 * sums + kChunkRegisters * chunks);
  double step = kStep + products + matrices * kMatrices + left.instructions + right.instructions;
  double each = kFixed + number(part_steps) * step;
  double result = kResult + shape.result.instructions;
  double tile_threads = number(tiles) * threads;
  f.thread_instructions = f.blocks * threads * each + tile_threads * sums * result;
  f.tensor_operations = number(tiles * steps) * warps * products * kProduct;
  double stage = number((blocks.rows + blocks.columns) * blocks.depth) * kElement;
  f.shared_bytes_moved =
      number(tiles * steps) * (warps * matrices * kMatrixBytes + stage) + tile_threads * sums * 8;
  f.sector_bytes = number(tiles * steps) * threads * (left.bytes + right.bytes) +
                   tile_threads * sums * (shape.result_bytes + shape.result.load_bytes);
  f.in_flight_bytes = std::max(1.0, number(blocks.stages - 1) * (left.bytes + right.bytes));
  double step_clocks = kStepClocks + products * kProductClocks + left.clocks + right.clocks;
  step_clocks = std::max(step_clocks, kGpuMemoryClocks / number(blocks.stages - 1));
  f.wait_clocks = kBeginClocks + number(part_steps) * step_clocks;
  double result_clocks = sums * (kResultClocks + 2 * shape.result.instructions);
  if (parts > 1) {
    f.thread_instructions += f.blocks * threads * sums * (kLeft + kAdded);
    f.sector_bytes += 2 * f.blocks * threads * sums * 4;
    f.wait_clocks += sums * kLeaveClocks;
    f.longest_wait_clocks =
        f.wait_clocks + kJoinClocks + number(parts) * sums * kAddClocks + result_clocks;
  } else {
    f.wait_clocks += result_clocks;
  }
  return f;
}

namespace {

// Whether each part has enough steps of all these shapes.
bool may_split(const std::vector<WeightedTile>& shapes, const TileBlocks& blocks) {
  if (blocks.splits == 1) return true;
  return std::all_of(shapes.begin(), shapes.end(), [&](const WeightedTile& each) {
    return divide_up(each.shape.steps, blocks.depth) >= kPartSteps * blocks.splits;
  });
}

}  // namespace

GpuMachine machine_of_blocks(int64_t processors) {
  GpuMachine machine = gpu_machine_of_target("cuda-sm_90a");
  machine.processors = static_cast<double>(std::max<int64_t>(1, processors));
  return machine;
}

double operand_bytes(const TileShape& shape) {
  return number(shape.batch) * (number(shape.rows) + number(shape.columns)) * number(shape.steps) *
         kElement;
}

double tiles_ns(const std::vector<WeightedTile>& shapes, const TileBlocks& blocks,
                const GpuMachine& machine) {
  double ns = 0;
  for (const WeightedTile& each : shapes) {
    GpuKernelFacts facts = tile_facts(each.shape, blocks, static_cast<int64_t>(machine.processors));
    facts.dram_bytes = operand_bytes(each.shape);
    ns += each.weight * gpu_kernel_time(facts, machine).total_ns;
  }
  return ns;
}

TileBlocks tile_blocks(const std::vector<WeightedTile>& shapes, const TileWish& wish,
                       int64_t processors) {
  const GpuMachine machine = machine_of_blocks(processors);
  TileBlocks best = kBlocks[0];
  double least = 0;
  int most_wanted = -1;
  for (TileBlocks blocks : kBlocks) {
    for (int64_t splits : kSplits) {
      blocks.splits = splits;
      bool is_asked = wish.splits == splits;
      if (!is_asked && !may_split(shapes, blocks)) continue;
      int wanted = (wish.rows == 0 || wish.rows == blocks.rows ? 2 : 0) +
                   (wish.columns == 0 || wish.columns == blocks.columns ? 2 : 0) +
                   (wish.splits == 0 || is_asked ? 1 : 0);
      if (wanted < most_wanted) continue;
      double ns = tiles_ns(shapes, blocks, machine);
      if (wanted == most_wanted && ns >= least) continue;
      most_wanted = wanted;
      least = ns;
      best = blocks;
    }
  }
  return best;
}

namespace {

// Of what tile_shape() takes, whose sizes are over `symbols`.
template <class Product>
std::optional<std::vector<WeightedTile>> tiles_of(const Product& product,
                                                  const std::vector<SymbolRange>& symbols) {
  std::vector<WeightedTile> shapes;
  for (const WeightedSizes& each : priced_sizes(symbols)) {
    auto shape = tile_shape(product, each.sizes);
    if (!shape) return std::nullopt;
    shapes.push_back({*shape, each.weight});
  }
  return shapes;
}

}  // namespace

std::optional<std::vector<WeightedTile>> priced_tiles(const Contraction& contraction) {
  return tiles_of(contraction, contraction.body().symbols);
}

std::optional<std::vector<WeightedTile>> priced_tiles(const PairedProducts& pair) {
  return tiles_of(pair, pair.body.symbols);
}

std::optional<std::vector<WeightedTile>> priced_tiles(const Graph& body) {
  return tiles_of(body, body.symbols);
}

std::optional<TileBlocks> tile_blocks(const Contraction& contraction, const TileWish& wish,
                                      int64_t processors) {
  auto shapes = priced_tiles(contraction);
  if (!shapes) return std::nullopt;
  return tile_blocks(*shapes, wish, processors);
}

}  // namespace common
