// Which block of warpgroup products computes a contraction, and whether any does.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "worker/codegen/cuda/text/machine.h"
#include "worker/codegen/cuda/tile/tile_block.h"

namespace worker {

struct WgmmaSize {
  int64_t rows = 128, columns = 128, stages = 4;
  int cluster = 1;         // blocks below each other that copy the right operand together
  bool is_copied = false;  // the copy engine brings both operands, by tensor maps
  CudaBlockSize block() const {
    return {rows, columns, static_cast<int>(rows / 64 * 128), cluster};
  }
};

// The schedule's warpgroups, stages and clusters, or what suits the sizes; none where single warps
// multiply.
std::optional<WgmmaSize> choose_wgmma_size(const common::Contraction& contraction,
                                           const common::Schedule& schedule,
                                           const CudaMachine& machine);

// How many blocks share a k.
int64_t wgmma_splits(const common::Contraction& contraction, const WgmmaSize& size,
                     const common::Schedule& schedule,
                     const std::vector<common::SymbolRange>& symbols, const CudaMachine& machine);

}  // namespace worker
