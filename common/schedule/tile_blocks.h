// How blocks of a GPU's threads share a product on tensor cores (mma.sync), and what that takes:
// for the generator, which cuts rows, columns and k, and for the search, which predicts the time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/cost/gpu_time.h"
#include "common/schedule/tile_shape.h"

namespace common {

struct TileBlocks {
  int64_t rows = 64, columns = 64, depth = 64;  // of a block; depth in a step
  int64_t tall = 32, wide = 32;                 // of a warp's tile: multiples of 16
  int64_t stages = 4;                           // blocks of operands in shared memory
  int64_t splits = 1;                           // blocks that share a k at most

  int64_t threads() const { return rows / tall * (columns / wide) * 32; }
  int64_t sums() const { return tall * wide / 32; }  // of a thread
  bool operator==(const TileBlocks&) const = default;
};
// Whether tile_blocks() may choose them, with splits of 1.
bool is_tile_block(const TileBlocks& blocks);

// Of the product's rows in shared memory.
inline constexpr int64_t kTilePad = 4;
// Blocks that share a k begin where there are fewer than this for each multiprocessor.
inline constexpr int64_t kTileBlocksSm = 2;

// Bytes of shared memory that a block takes: its stages; or its results.
int64_t tile_shared_bytes(const TileBlocks& blocks);

// Of one launch with those blocks. Its traffic with device memory is not known here.
GpuKernelFacts tile_facts(const TileShape& shape, const TileBlocks& blocks, int64_t processors);

// What a product of symbolic sizes may have to compute, and how much the time of it counts.
struct WeightedTile {
  TileShape shape;
  double weight = 1;
};

// Of a contraction over the priced_sizes() of its symbols; empty where tile_shape() is.
std::optional<std::vector<WeightedTile>> priced_tiles(const Contraction& contraction);
std::optional<std::vector<WeightedTile>> priced_tiles(const PairedProducts& pair);
// The same of a kernel's body as it is before it is lowered.
std::optional<std::vector<WeightedTile>> priced_tiles(const Graph& body);
// The machine by whose rates blocks are compared, with `processors` multiprocessors: rates of one
// product decide for all, so that a plan's text depends on that number alone.
GpuMachine machine_of_blocks(int64_t processors);
// Bytes that device memory delivers at least.
double operand_bytes(const TileShape& shape);
// Nanoseconds over all shapes, without the launch.
double tiles_ns(const std::vector<WeightedTile>& shapes, const TileBlocks& blocks,
                const GpuMachine& machine);

// What multiplies a tile of halves: single warps, warpgroups, or what is expected to be quicker.
enum class TileUnits { kQuicker, kWarps, kWarpgroups };
// Of the schedule's parameters; sizes of blocks are those of single warps.
constexpr TileUnits tile_units(int64_t warpgroups, int64_t block_rows, int64_t block_columns) {
  if (warpgroups > 1) return TileUnits::kWarpgroups;
  bool is_quicker = warpgroups == 0 && block_rows == 0 && block_columns == 0;
  return is_quicker ? TileUnits::kQuicker : TileUnits::kWarps;
}

// What a schedule asks for; 0: anything.
struct TileWish {
  int64_t rows = 0, columns = 0, splits = 0;
};

// The blocks that take least over all these shapes, one at least, on a GPU with `processors`
// multiprocessors, by gpu_kernel_time(). A wish is kept where there are such blocks.
TileBlocks tile_blocks(const std::vector<WeightedTile>& shapes, const TileWish& wish,
                       int64_t processors);
// The same over the priced_sizes() of a contraction's symbols; empty where tile_shape() is.
std::optional<TileBlocks> tile_blocks(const Contraction& contraction, const TileWish& wish,
                                      int64_t processors);

}  // namespace common
