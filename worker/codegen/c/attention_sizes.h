// How long the rows are that a unit of the kAttention template keeps in scratch memory.
#pragma once

#include <cstdint>

#include "common/ir/hlir/attention_form.h"
#include "common/schedule/kernels/attention_tiling.h"

namespace worker {

struct AttentionSizes {
  common::AttentionTiling tiling;
  int64_t lanes = 16;                 // elements of a vector
  int64_t depth = 1, width = 1;       // of a query, of a value
  common::Expr row_count, key_count;  // of the whole attention

  // Elements from one row to the next, in scratch.
  int64_t query_stride() const;
  int64_t sum_stride() const;
  common::Expr score_stride() const;
  // Keys that are packed at once.
  int64_t packed_keys() const;
};

AttentionSizes attention_sizes(const common::Graph& body, const common::AttentionForm& form,
                               const common::AttentionTiling& tiling,
                               const common::VectorUnit& unit);

}  // namespace worker
