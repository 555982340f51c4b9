// What the kTile template decides before it writes code: blocks, which operands are read where they
// lie, and the C types of what is packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ir/llir/llir.h"
#include "common/lowering/body/body_emitter.h"
#include "worker/codegen/c/tile/tile_steps.h"
#include "worker/codegen/text/tile_params.h"
#include "worker/codegen/text/vector_unit.h"

namespace worker {

struct TileLayout {
  TileSteps steps;
  std::optional<int64_t> column_step;  // between neighbours along k, where columns are in place
  bool has_tiles = false;              // register tiles of matrices, not of vectors
  TileReads reads;
  TileParams params;
  bool rows_in_place = false;
  int64_t row_stride = 0;     // of packed_a
  bool single_block = false;  // one block holds all steps
  bool ends_in_half = false;  // half a pair may end the steps, and has no zero beside it
  std::string type, vector;   // C: of the contraction's elements

  // C: a step of an operand wherever it lies.
  std::string step_type() const { return steps.has_pairs() ? "lf_bf16_pair" : type; }
};

TileLayout tile_layout(const common::Contraction& product, const common::Schedule& schedule,
                       const VectorUnit& unit);

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
