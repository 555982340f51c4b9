// How blocks of warpgroups share a product of halves whose operands the copy engine brings, and
// what that takes: for the generator, which cuts rows, columns and k, and for the search, which
// predicts the time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/cost/gpu_time.h"
#include "common/schedule/tile_blocks.h"

namespace common {

// Of the product, that a block computes.
struct ProductBlock {
  int64_t rows = 128, columns = 256;
  int cluster = 2;     // 1, 2 or 4
  int64_t splits = 1;  // blocks that share a k at most
  int64_t stages = 4;  // steps of k that shared memory holds
  // For a convolution whose blocks keep the pixels that all taps of their windows read, 64 channels
  // at a time: the number of pixels, and the number of such 64-channel patches that fit into shared
  // memory. 0: each tap copies its pixels.
  int64_t patch = 0, patches = 0;
  int64_t sum_bytes = 4;  // of a sum on its way through shared memory to the thread that stores it
  // Whether it computes two products (TileShape::is_pair): the first one's sums stay in shared
  // memory beside the stages.
  bool is_pair = false;
  // Blocks of a cluster lie below each other and copy the right operand together, or beside each
  // other and copy the left one together.
  bool is_beside = false;

  int64_t below() const { return is_beside ? 1 : cluster; }
  int64_t beside() const { return is_beside ? cluster : 1; }
  bool operator==(const ProductBlock&) const = default;
};

// Whether product_block() may choose blocks of such sizes.
bool is_product_block(int64_t rows, int64_t columns, int64_t cluster);

// Pixels of the patch that a block of `rows` windows keeps for all `taps`, in equal boxes of a
// tensor map; 0 where taps would copy no more than that, or are too many to be written out.
int64_t patch_pixels(const WindowGrid& grid, int64_t taps, int64_t rows);

// What a schedule asks for; 0: anything.
struct ProductWish {
  int64_t rows = 0, columns = 0, cluster = 0, splits = 0;
  bool has_patches = true;  // whether blocks may keep patches of images
  bool is_beside = false;   // of the cluster, where one is asked for
  // Whether blocks beside each other may copy the left operand together, as far as its shape lets
  // them.
  bool may_be_beside = true;
};
// Of the schedule's parameters. Clusters of 100 + n are n blocks beside each other.
constexpr ProductWish product_wish(int64_t warpgroups, int64_t clusters, int64_t splits) {
  constexpr int64_t kBeside = 100;
  ProductWish wish{0, 0, clusters % kBeside, splits};
  wish.is_beside = clusters > kBeside;
  if (warpgroups <= 1) return wish;
  wish.rows = warpgroups / 1000;
  wish.columns = warpgroups % 1000;
  return wish;
}

// Blocks that a multiprocessor has room for at once.
int64_t resident_products(const ProductBlock& block);

// Blocks that share a k: as many as fill a GPU with `processors` multiprocessors once, where
// `tiles` parts of the product have one each, at most those of the block.
Expr product_parts(const Expr& tiles, const ProductBlock& block, int64_t processors);

// Of one launch with those blocks, without what device memory moves.
GpuKernelFacts product_facts(const TileShape& shape, const ProductBlock& block, int64_t processors);

// Nanoseconds over all shapes, whose operands are copied, without the launch.
double products_ns(const std::vector<WeightedTile>& shapes, const ProductBlock& block,
                   const GpuMachine& machine);

// The block that takes least over all these shapes, one at least, on a GPU with `processors`
// multiprocessors, and is as wished.
ProductBlock product_block(const std::vector<WeightedTile>& shapes, const ProductWish& wish,
                           int64_t processors);

// That block where it takes less than the blocks of single warps which tile_blocks() chooses with
// the wished splits; else none. Always that of pairs, which single warps do not compute.
std::optional<ProductBlock> quicker_product_block(const std::vector<WeightedTile>& shapes,
                                                  const ProductWish& wish, int64_t processors);

}  // namespace common
