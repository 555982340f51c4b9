// What a product of halves takes on a GPU whose warpgroups multiply and whose copy engine brings
// the operands: for searches, which predict the time of the blocks that the generator writes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/cost/gpu_time.h"
#include "common/schedule/tile_blocks.h"

namespace common {

struct ProductShape {
  double batch = 1, rows = 1, columns = 1, depth = 1;
};

// Of the product, that a block computes; blocks of a cluster lie below each other and copy the
// right operand together.
struct ProductBlock {
  int64_t rows = 128, columns = 256;
  int cluster = 2;
};

// Of one launch with those blocks, without what becomes of the product's elements and what device
// memory moves.
GpuKernelFacts product_facts(const ProductShape& shape, const ProductBlock& block);

// Nanoseconds over all shapes, whose operands are copied, without the launch.
double products_ns(const std::vector<WeightedTile>& shapes, const ProductBlock& block,
                   const GpuMachine& machine);

// Adds to `other`, a kernel's facts without its product, those of the blocks that take least;
// empty where the machine's warpgroups do not multiply.
std::optional<GpuKernelFacts> product_facts(const ProductShape& shape, const GpuKernelFacts& other,
                                            const GpuMachine& machine);

}  // namespace common
