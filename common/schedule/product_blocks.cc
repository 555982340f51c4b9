#include "common/schedule/product_blocks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/base/divide_up.h"
#include "common/cost/gpu_shared_memory.h"

namespace common {
namespace {

// Of equal ones the first.
constexpr ProductBlock kBlocks[] = {
    {128, 256, 2}, {128, 256, 1}, {128, 256, 4}, {128, 128, 2}, {128, 128, 1}, {128, 128, 4},
    {64, 256, 2},  {64, 256, 1},  {64, 256, 4},  {128, 64, 2},  {128, 64, 1},  {128, 64, 4},
    {64, 128, 2},  {64, 128, 1},  {64, 128, 4},  {64, 64, 2},   {64, 64, 1},   {64, 64, 4},
    {192, 128, 2}, {192, 128, 1}, {192, 128, 4}, {192, 64, 2},  {192, 64, 1},  {192, 64, 4},
    {256, 64, 2},  {256, 64, 1},  {256, 64, 4}};
constexpr int64_t kSplits[] = {1, 2, 4, 8, 16, 32};
constexpr int64_t kStagesLeast = 2;  // where there are as many steps
constexpr int64_t kPartSteps = 4;    // of a block that shares a k, at least
constexpr int64_t kStepDepth = 64, kGroupRows = 64, kGroupThreads = 128, kWarpRows = 16;
constexpr double kHalf = 2, kWarp = 32;
// Of a multiprocessor, and of a thread beside its sums: without patches and with them, where two
// steps of the left operand are in registers.
constexpr int64_t kRegisters = 65536, kOtherRegisters = 40, kPatchRegisters = 80, kThreads = 2048;
// Pixels of 128 bytes that are permuted as one; what blocks keep at most; taps that are written
// out.
constexpr int64_t kPatchRows = 8, kPatchesMax = 2, kPatchTapsMax = 27, kPatchStagesMax = 9;
// Of shared memory: a row of sums is filled up; barriers, and what functions keep for themselves.
constexpr int64_t kPad = 8, kOtherBytes = 2048;
// Thread instructions, counted in machine code for sm_90a: of a step, of an element from its sum to
// the store, of a sum that is left for another block, and of one that is added there.
constexpr double kStep = 43, kPatchStep = 60, kElement = 6, kLeft = 1, kAdded = 2;
// Clocks of a warp that runs alone: kBegin until the first boxes have arrived; kElement for each
// element of its own; kRound for the loads of kRoundElements elements; kLeave and kAdd for four
// sums that a split product leaves or adds (a load took 1,250 clocks on a busy H200, and four are
// under way); kJoin until a block knows whether it is the last of a sum.
constexpr double kBeginClocks = 1300, kElementClocks = 26, kRoundClocks = kGpuMemoryClocks,
                 kRoundElements = 32, kLeaveClocks = 8, kAddClocks = 310, kJoinClocks = 1500;
// Of the blocks of a cluster, which meet before their first boxes and after the last.
constexpr double kMeetClocks = 1080;
// What clusters of four take longer, since not all processors of a group of them belong to one: on
// an H200 2048 x 4096 x 4096 in blocks of 128 x 256 took 134 us by fours and 97 by twos, and gate
// and up of Llama-3-8B for 2,048 tokens 740 and 678.
constexpr double kFourStretch = 1.25;
// What blocks beside each other have to be quicker than all others: machine code takes up to 15 %
// more or less than is expected, and the epilogues of narrow blocks more.
constexpr double kBesideMargin = 1.1;
// From a box's request until its products may begin, where the second cache has it.
constexpr double kBoxClocks = 500;
// That the second cache delivers to a processor in a clock.
constexpr double kCacheBytesPerClock = 32;
constexpr int64_t kBoxPixels = 256;  // of a tensor map, at most
// Multiplications and additions of a processor's tensor cores in a clock.
constexpr double kOperationsPerClock = 4096;
constexpr int64_t kDeep = 16;  // of k, in one product

double number(int64_t value) { return static_cast<double>(value); }

double stage_bytes(const ProductBlock& block) {
  return number(((block.patch > 0 ? 0 : block.rows) + block.columns) * kStepDepth) * kHalf;
}

double patch_bytes(const ProductBlock& block) { return number(block.patch * kStepDepth) * kHalf; }

double shared_bytes(const ProductBlock& block) {
  const double sums = number(block.rows * (block.columns + kPad) * block.sum_bytes);
  return number(kOtherBytes) + (block.is_pair ? sums : 0) +
         std::max(
             number(block.stages) * stage_bytes(block) + number(block.patches) * patch_bytes(block),
             sums);
}

int64_t threads_of(const ProductBlock& block) {
  return block.rows / kGroupRows * kGroupThreads + static_cast<int64_t>(kWarp);
}

// Of a thread.
int64_t registers_of(const ProductBlock& block) {
  return block.columns / 2 + (block.patch > 0 ? kPatchRegisters : kOtherRegisters);
}

// Whether a multiprocessor has room for one.
bool has_room(const ProductBlock& block) {
  return shared_bytes(block) <= kHopperSharedBytesMax &&
         threads_of(block) * registers_of(block) <= kRegisters;
}

// Blocks that fill the machine once.
int64_t places(const ProductBlock& block, int64_t processors) {
  return processors * resident_products(block);
}

// Of a block that sums all products; those of each tap are filled up to whole ones.
int64_t steps_of(const TileShape& shape) {
  return shape.taps * divide_up(divide_up(shape.steps, shape.taps), kStepDepth);
}

// Of an element that the copy engine brings: windows leave out what lies beyond an image.
double copied_bytes(const TileOperand& operand) {
  return operand.is_copied ? kHalf : operand.element.load_bytes;
}

// Of the product, that have a block or several each: whole clusters of them.
int64_t tiles_of(const TileShape& shape, const ProductBlock& block) {
  const int64_t below = block.below(), beside = block.beside();
  return shape.batch * divide_up(shape.rows, block.rows * below) * below *
         divide_up(shape.columns, block.columns * beside) * beside;
}

// Steps that parts of a k begin with: where blocks keep patches a patch's taps.
int64_t whole_steps(const TileShape& shape, const ProductBlock& block) {
  return block.patch > 0 ? shape.taps : 1;
}

// The pixels that the block keeps; 0 where one of the shapes has no patches, or larger ones than
// what its taps copy, or where the code of all taps would be long.
int64_t patch_of(const std::vector<WeightedTile>& shapes, const ProductBlock& block) {
  int64_t most = 0;
  for (const WeightedTile& each : shapes) {
    const int64_t patch =
        each.shape.grid ? patch_pixels(*each.shape.grid, each.shape.taps, block.rows) : 0;
    if (patch == 0) return 0;
    most = std::max(most, patch);
  }
  return most;
}

// What a step multiplies: the channels of one tap may be fewer than a step has room for.
int64_t used_depth(const TileShape& shape) {
  if (shape.taps == 1) return kStepDepth;
  return std::min(kStepDepth, divide_up(divide_up(shape.steps, shape.taps), kDeep) * kDeep);
}

// The products of a pair are not shared.
bool may_split(const std::vector<WeightedTile>& shapes, const ProductBlock& block) {
  if (block.is_pair) return block.splits == 1;
  return block.splits == 1 ||
         std::all_of(shapes.begin(), shapes.end(), [&](const WeightedTile& each) {
           return steps_of(each.shape) >= kPartSteps * block.splits;
         });
}

// More than there are steps would take room that other blocks could have.
int64_t stages_of(const std::vector<WeightedTile>& shapes) {
  int64_t most = 1;
  for (const WeightedTile& each : shapes) {
    most = std::max(most, steps_of(each.shape));
  }
  return std::min(most, ProductBlock{}.stages);
}

// With fewer there may be room for another block. Where blocks keep patches, taps are whole rounds
// of the stages.
std::vector<int64_t> stages_of(const std::vector<WeightedTile>& shapes, const ProductBlock& block) {
  std::vector<int64_t> numbers;
  const int64_t most = block.patch > 0 ? kPatchStagesMax : stages_of(shapes);
  for (int64_t stages = most; stages >= std::min(most, kStagesLeast); --stages) {
    if (block.patch > 0 && shapes.front().shape.taps % stages != 0) continue;
    numbers.push_back(stages);
  }
  return numbers;
}

}  // namespace

namespace {

// `has_memory`: with the time that device memory takes. Blocks are compared without it: it is the
// same for all of them, and overlapping windows are counted several times in their bytes.
double expected_ns(const std::vector<WeightedTile>& shapes, const ProductBlock& block,
                   const GpuMachine& machine, bool has_memory) {
  double ns = 0;
  for (const WeightedTile& each : shapes) {
    GpuKernelFacts f = product_facts(each.shape, block, static_cast<int64_t>(machine.processors));
    if (has_memory) f.dram_bytes = operand_bytes(each.shape);
    f.thread_instructions += number(each.shape.batch * each.shape.rows * each.shape.columns) *
                             each.shape.result.instructions;
    ns += each.weight * gpu_kernel_time(f, machine).total_ns;
  }
  return block.cluster == 4 ? kFourStretch * ns : ns;
}

// Whether the copy engine brings a box of the left operand to several blocks at once.
bool may_be_beside(const std::vector<WeightedTile>& shapes, const ProductWish& wish) {
  return wish.may_be_beside &&
         std::all_of(shapes.begin(), shapes.end(), [](const WeightedTile& each) {
           return each.shape.left.is_copied && !each.shape.has_windows;
         });
}

// Blocks with their clusters, those below each other before those beside each other.
std::vector<ProductBlock> clustered_blocks(bool may_be_beside) {
  std::vector<ProductBlock> blocks(std::begin(kBlocks), std::end(kBlocks));
  for (ProductBlock block : kBlocks) {
    if (block.cluster == 1 || !may_be_beside) continue;
    block.is_beside = true;
    blocks.push_back(block);
  }
  return blocks;
}

// Those that the wish allows, without splits and stages; of equal ones the first is to be taken.
std::vector<ProductBlock> blocks_of(const std::vector<WeightedTile>& shapes,
                                    const ProductWish& wish) {
  const bool has_beside = may_be_beside(shapes, wish);
  std::vector<ProductBlock> blocks;
  for (ProductBlock block : clustered_blocks(has_beside)) {
    const bool is_as_wished =
        block.cluster == wish.cluster && block.is_beside == (wish.is_beside && has_beside);
    if ((wish.rows != 0 && block.rows != wish.rows) ||
        (wish.columns != 0 && block.columns != wish.columns) ||
        (wish.cluster != 0 && !is_as_wished)) {
      continue;
    }
    int64_t parts = 1;  // of the channels, of which a step takes one
    block.sum_bytes = 0;
    for (const WeightedTile& each : shapes) {
      block.sum_bytes = std::max(block.sum_bytes, each.shape.sum_bytes);
      block.is_pair = block.is_pair || each.shape.is_pair;
      parts = std::max(parts, steps_of(each.shape) / each.shape.taps);
    }
    block.patch = wish.has_patches && !block.is_beside ? patch_of(shapes, block) : 0;
    block.patches = block.patch > 0 ? std::min(parts, kPatchesMax) : 0;
    for (; block.patches > 0; --block.patches) blocks.push_back(block);
    block.patch = 0;
    blocks.push_back(block);
  }
  return blocks;
}

// Of a thread that computes and stores `own` results.
double result_clocks(const TileShape& shape, double own) {
  const double rounds = shape.result.loads > 0 ? own / kRoundElements : 0;
  return own * kElementClocks + rounds * kRoundClocks;
}

}  // namespace

bool is_product_block(int64_t rows, int64_t columns, int64_t cluster) {
  return std::any_of(std::begin(kBlocks), std::end(kBlocks), [&](const ProductBlock& block) {
    return block.rows == rows && block.columns == columns && block.cluster == cluster;
  });
}

int64_t patch_pixels(const WindowGrid& grid, int64_t taps, int64_t rows) {
  const int64_t patch = grid.patch(rows);
  if (taps > kPatchTapsMax || patch >= taps * rows) return 0;
  const int64_t boxes = divide_up(patch, kBoxPixels);
  return boxes * divide_up(divide_up(patch, boxes), kPatchRows) * kPatchRows;
}

int64_t resident_products(const ProductBlock& block) {
  const int64_t threads = threads_of(block);
  const auto by_memory = static_cast<int64_t>(kHopperSharedBytesMax / shared_bytes(block));
  return std::max<int64_t>(
      1, std::min({by_memory, kRegisters / (threads * registers_of(block)), kThreads / threads}));
}

Expr product_parts(const Expr& tiles, const ProductBlock& block, int64_t processors) {
  if (block.splits == 1) return 1;
  return max(1, min(block.splits, floor_div(places(block, processors), tiles)));
}

GpuKernelFacts product_facts(const TileShape& shape, const ProductBlock& block,
                             int64_t processors) {
  const int64_t tiles = tiles_of(shape, block);
  const int64_t all_steps = steps_of(shape), whole = whole_steps(shape, block);
  int64_t parts = std::clamp<int64_t>(places(block, processors) / tiles, 1, block.splits);
  const int64_t part_steps = divide_up(all_steps / whole, parts) * whole;
  parts = divide_up(all_steps, part_steps);
  const double steps = number(part_steps), groups = number(block.rows / kGroupRows);
  const double multiplying = groups * number(kGroupThreads);
  const double elements = number(block.rows * block.columns), columns = number(block.columns);
  GpuKernelFacts f;
  f.blocks = number(tiles * parts);
  f.block_threads = number(threads_of(block));
  f.registers = number(registers_of(block));
  f.block_shared_bytes = shared_bytes(block);
  const double depth = number(used_depth(shape));
  const double operations = 2 * elements * depth * steps;
  f.warpgroup_operations = f.blocks * operations;
  const double step_work = block.patch > 0 ? kPatchStep : kStep;
  f.thread_instructions =
      f.blocks * f.block_threads * steps * step_work + number(tiles) * elements * kElement;
  // The copy engine reads nothing beyond an operand's end: each block or cluster of columns reads
  // all rows, and each block or cluster of rows all columns.
  const double deep = number(shape.batch * shape.steps);
  const double row_blocks = number(divide_up(shape.rows, block.rows * block.below()));
  const double column_blocks = number(divide_up(shape.columns, block.columns));
  const double row_readers = number(divide_up(shape.columns, block.columns * block.beside()));
  const double patches = block.patch > 0 ? number(part_steps / whole) : 0;
  const double left_bytes =
      block.patch > 0 ? f.blocks * patches * patch_bytes(block) * shape.grid->inside()
                      : deep * number(shape.rows) * copied_bytes(shape.left) * row_readers;
  f.sector_bytes = left_bytes +
                   deep * number(shape.columns) * copied_bytes(shape.right) * row_blocks +
                   number(shape.batch * shape.rows * shape.columns) *
                       (shape.result.load_bytes + shape.result_bytes);
  // Boxes are written once; each warpgroup reads its rows and all columns. Sums go through it, too.
  // Pixels of a patch that lie two apart meet half of the banks.
  const double turns = block.patch > 0 ? number(std::gcd(shape.grid->axes[0].step, kPatchRows)) : 1;
  const double product_bytes = groups * (number(kGroupRows) * turns + columns) * depth * kHalf;
  f.shared_bytes_moved =
      f.blocks * steps * (stage_bytes(block) + product_bytes) +
      f.blocks * patches * patch_bytes(block) +
      number(tiles) * (block.is_pair ? 4 : 2) * elements * number(shape.sum_bytes);
  f.in_flight_bytes =
      (number(block.stages) * stage_bytes(block) + number(block.patches) * patch_bytes(block)) /
      f.block_threads;
  f.wait_clocks = kBeginClocks + std::max(operations / kOperationsPerClock,
                                          steps * kBoxClocks / number(block.stages));
  if (block.cluster > 1) f.wait_clocks += kMeetClocks;
  if (block.is_pair) f.wait_clocks += columns / 8 * kLeaveClocks;
  // With room for one patch, the next is asked for when the last tap has read it.
  if (block.patches == 1) {
    f.wait_clocks += (patches - 1) * (kBoxClocks + patch_bytes(block) / kCacheBytesPerClock);
  }
  const double stored_clocks = result_clocks(shape, elements / multiplying);
  if (parts == 1) {
    f.wait_clocks += stored_clocks;
    return f;
  }
  // Warps leave the rows that the product has.
  const int64_t left_rows = divide_up(shape.rows, kWarpRows) * kWarpRows;
  const double left = number(std::min(block.rows, left_rows)) * columns;
  const double all_left = number(shape.batch * parts * left_rows) * column_blocks * columns;
  f.sector_bytes += 2 * all_left * 4;
  f.thread_instructions += all_left * (kLeft + kAdded);
  f.wait_clocks += columns / 8 * kLeaveClocks;
  f.longest_wait_clocks = f.wait_clocks + kJoinClocks +
                          number(parts) * left / 4 / multiplying * kAddClocks + stored_clocks;
  return f;
}

double products_ns(const std::vector<WeightedTile>& shapes, const ProductBlock& block,
                   const GpuMachine& machine) {
  return expected_ns(shapes, block, machine, true);
}

ProductBlock product_block(const std::vector<WeightedTile>& shapes, const ProductWish& wish,
                           int64_t processors) {
  const GpuMachine machine = machine_of_blocks(processors);
  ProductBlock best = kBlocks[0];
  double least = std::numeric_limits<double>::infinity();
  for (ProductBlock block : blocks_of(shapes, wish)) {
    for (int64_t splits : kSplits) {
      block.splits = splits;
      const bool is_asked = wish.splits != 0 && !block.is_pair;
      if (is_asked ? splits != wish.splits : !may_split(shapes, block)) continue;
      for (int64_t stages : stages_of(shapes, block)) {
        block.stages = stages;
        if (!has_room(block)) continue;
        double ns = expected_ns(shapes, block, machine, false);
        const double margin = block.is_beside && !best.is_beside ? kBesideMargin : 1;
        if (ns * margin >= least) continue;
        best = block;
        least = ns;
      }
    }
  }
  return best;
}

std::optional<ProductBlock> quicker_product_block(const std::vector<WeightedTile>& shapes,
                                                  const ProductWish& wish, int64_t processors) {
  if (!shapes.empty() && shapes.front().shape.is_pair) {
    return product_block(shapes, wish, processors);
  }
  const GpuMachine machine = machine_of_blocks(processors);
  const TileBlocks warps = tile_blocks(shapes, {0, 0, wish.splits}, processors);
  const ProductBlock block = product_block(shapes, wish, processors);
  // Memory that takes longer than both decides nothing.
  double ours = products_ns(shapes, block, machine), theirs = tiles_ns(shapes, warps, machine);
  if (ours == theirs) {
    ours = expected_ns(shapes, block, machine, false);
    theirs = 0;
    for (const WeightedTile& each : shapes) {
      const GpuKernelFacts facts = tile_facts(each.shape, warps, processors);
      theirs += each.weight * gpu_kernel_time(facts, machine).total_ns;
    }
  }
  return ours < theirs ? std::optional(block) : std::nullopt;
}

}  // namespace common
