// What the code of the kTile template needs to know beside its tiling: how steps go through memory,
// and the C types of what is packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/lowering/body/body_emitter.h"
#include "common/schedule/kernels/register_tiling.h"

namespace worker {

struct TileLayout {
  common::RegisterTiling tiling;
  common::TileSteps steps;
  int64_t lanes = 16;                  // elements of a vector, or rows of a register of a matrix
  std::optional<int64_t> column_step;  // between neighbours along k, where columns are in place
  int64_t row_run = 0;                 // of the left operand, see rows_lie_in_place()
  int64_t row_stride = 0;              // of packed_a
  bool single_block = false;           // one block holds all steps
  bool ends_in_half = false;           // half a pair may end the steps, and has no zero beside it
  std::string type, vector;            // C: of the contraction's elements

  // C: a step of an operand wherever it lies.
  std::string step_type() const { return steps.has_pairs() ? "lf_bf16_pair" : type; }
};

// The tiling is verified.
TileLayout tile_layout(const common::Contraction& product, const common::RegisterTiling& tiling,
                       const common::VectorUnit& unit);

// Where a tile kernel's code is written, and what it computes: the parts of the template take it.
struct TileCode {
  const common::Contraction& product;
  const TileLayout& layout;
  common::CodeWriter& writer;
  common::BodyEmitter& emitter;
  std::vector<common::Expr> batch;  // the unit's index of each of the batch's labels

  std::vector<common::Expr> own_sizes(common::Side side) const {
    return product.sizes_of(product.own_labels(side));
  }
};

}  // namespace worker
