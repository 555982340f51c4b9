// Which block of warpgroup products computes a contraction, and whether any does.
#pragma once

#include <optional>

#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "common/schedule/product_blocks.h"
#include "worker/codegen/cuda/text/machine.h"
#include "worker/codegen/cuda/tile/tile_block.h"

namespace worker {

struct WgmmaSize {
  int64_t rows = 128, columns = 128, stages = 4;
  int cluster = 1;         // blocks that copy the right operand together, below each other
  bool is_beside = false;  // or the left one, beside each other
  bool is_copied = false;  // the copy engine brings both operands, by tensor maps
  // Pixels of images that a block keeps for all taps of a convolution, and for how many parts of
  // the channels; 0: each tap copies its pixels.
  int64_t patch = 0, patches = 0;
  int64_t resident = 1;     // blocks that a multiprocessor is to hold at once
  common::Expr splits = 1;  // blocks that share a k
  CudaBlockSize block() const {
    return {rows, columns, static_cast<int>(rows / 64 * 128), cluster, is_beside};
  }
};

// The schedule's warpgroups, stages, clusters and splits, or what suits the sizes; none where
// single warps multiply.
std::optional<WgmmaSize> choose_wgmma_size(const common::Contraction& contraction,
                                           const common::Schedule& schedule,
                                           const CudaMachine& machine);

// Of paired products, likewise but for splits; none where the machine has no warpgroups.
std::optional<WgmmaSize> choose_wgmma_size(const common::PairedProducts& pair,
                                           const common::Schedule& schedule,
                                           const CudaMachine& machine);

// The size that the schedule asks for, of blocks whose threads copy the operands; none where it
// asks for none.
std::optional<WgmmaSize> given_wgmma_size(const common::Schedule& schedule);

}  // namespace worker
