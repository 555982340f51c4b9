// How the kAttention template cuts an attention into units and blocks, and how long the rows are
// that a unit keeps in scratch memory.
#pragma once

#include <cstdint>

#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"
#include "worker/codegen/text/tile_params.h"

namespace worker {

struct AttentionSizes {
  int64_t lanes = 16;                 // elements of a vector
  int64_t depth = 1, width = 1;       // of a query, of a value
  int64_t rows = 64;                  // of one unit
  int64_t keys = 128;                 // of one block
  TileParams scores, product;         // register tiles
  bool skinny = false;                // keys and values are read in place
  bool online = true;                 // a block of keys rescales what earlier blocks left
  common::Expr row_count, key_count;  // of the whole attention

  // Elements from one row to the next, in scratch.
  int64_t query_stride() const;
  int64_t sum_stride() const;
  common::Expr score_stride() const;
  // Keys that are packed at once.
  int64_t packed_keys() const;
};

// `depth`: of a query. `dtype`: the product's.
AttentionSizes attention_sizes(const common::AttentionForm& form, int64_t depth,
                               common::DType dtype, const common::Schedule& schedule,
                               int vector_bytes);

}  // namespace worker
