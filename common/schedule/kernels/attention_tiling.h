// How a processor divides an attention: into rows of a unit, blocks of keys and register tiles.
#pragma once

#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"
#include "common/schedule/kernels/vector_unit.h"

namespace common {

struct AttentionTiling {
  static constexpr std::string_view kForm = "attention_tile";
  int64_t rows = 64;                    // of one unit
  int64_t keys = 128;                   // of one block
  int64_t score_mr = 8, score_nr = 48;  // register tile of scores: rows, keys; 0 with dots
  int64_t sum_mr = 8, sum_nr = 48;      // of the product: rows, columns
  bool dots = false;                    // few rows: keys and values are read where they lie
  bool online = true;                   // a block of keys rescales what earlier blocks left
  bool reads_masks = false;             // keys that masks hide from all rows of a unit are left out

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("keys", t.keys);
    visit("score_mr", t.score_mr);
    visit("score_nr", t.score_nr);
    visit("sum_mr", t.sum_mr);
    visit("sum_nr", t.sum_nr);
    visit("dots", t.dots);
    visit("online", t.online);
    visit("reads_masks", t.reads_masks);
  }
};

// `form` is that of `body`. What the schedule asks for, else what suits sizes and unit.
AttentionTiling choose_attention_tiling(const Graph& body, const AttentionForm& form,
                                        const Schedule& schedule, const VectorUnit& unit);

// kInvalidInput says which size such a unit or the attention does not allow.
Status verify(const AttentionTiling& tiling, const Graph& body, const AttentionForm& form,
              const VectorUnit& unit);

}  // namespace common
