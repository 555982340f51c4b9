// How blocks of a GPU's threads share an attention of few rows over long sequences, and what that
// takes: for the tiling, which cuts the keys, and for the search, which predicts the time.
#pragma once

#include <cstdint>
#include <vector>

#include "common/cost/gpu_time.h"

namespace common {

// Keys that a warp takes in a step: the depth of a tensor product.
inline constexpr int64_t kDecodeWarpKeys = 16;

// `rows` share `keys` keys of `depth` and as many values of `width` elements of 16 bits, in each of
// `batch` elements. None is 0.
struct DecodeShape {
  int64_t batch = 1, rows = 1, keys = 1, depth = 1, width = 1;
};

struct DecodeBlocks {
  int64_t warps = 1;   // of a block, each with keys of its own
  int64_t splits = 1;  // blocks that share the keys; the last of them merges their parts
};

// What a schedule's `block_keys` and `splits` ask for; 0: nothing.
DecodeBlocks given_decode_blocks(int64_t block_keys, int64_t splits);

// Of one launch with those blocks, each of which has keys.
GpuKernelFacts decode_facts(const DecodeShape& shape, const DecodeBlocks& blocks);

// What an attention of symbolic sizes may have to compute, and how much the time of it counts.
struct WeightedShape {
  DecodeShape shape;
  double weight = 1;
};

// The blocks that take least over all these shapes, one at least, on a GPU with `processors`
// multiprocessors, by gpu_kernel_time(). What is not 0 in `given` is kept; blocks that have keys in
// none of the shapes are left out.
DecodeBlocks decode_blocks(const std::vector<WeightedShape>& shapes, const DecodeBlocks& given,
                           int64_t processors);
DecodeBlocks decode_blocks(const DecodeShape& shape, const DecodeBlocks& given, int64_t processors);

}  // namespace common
