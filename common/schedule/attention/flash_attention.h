// Attention of many rows on tensor cores, whose scores and probabilities stay in registers: the
// rows and keys of a GPU's blocks.
#pragma once

#include <optional>

#include "common/ir/llir/llir.h"
#include "common/lowering/attention/half_attention.h"

namespace common {

// After FlashAttention-2: warps multiply 16 rows or several times as many.
struct FlashAttentionTiling {
  static constexpr std::string_view kForm = "attention_flash";
  int64_t rows = 64, keys = 64;  // of a block, of which the keys are those of a step
  int64_t tiles = 1;             // of 16 rows that a warp has
  bool one_label = false;        // see with_one_row_label()
  // Rows are normalised after the product; otherwise scores are computed twice.
  bool online = true;
  bool rounds_first = false;  // see rounded_before()

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("keys", t.keys);
    visit("tiles", t.tiles);
    visit("one_label", t.one_label);
    visit("online", t.online);
    visit("rounds_first", t.rounds_first);
  }
};

// After FlashAttention-3, for GPUs whose warpgroups multiply: of 64 rows each, and the copy engine
// brings keys and values. Rows are normalised after the product.
struct WarpgroupAttentionTiling {
  static constexpr std::string_view kForm = "attention_warpgroups";
  int64_t rows = 64, keys = 64;
  bool one_label = false;
  bool rounds_first = false;

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("keys", t.keys);
    visit("one_label", t.one_label);
    visit("rounds_first", t.rounds_first);
  }
};

// The form in which other labels of rows than the last are of the batch, so that a block's rows
// have one label.
AttentionForm with_one_row_label(AttentionForm form);

// The attention that blocks of such a tiling compute; empty where probabilities cannot be rounded
// first.
std::optional<HalfAttention> tiled_attention(const HalfAttention& attention, bool one_label,
                                             bool rounds_first);

// A tiling of one of the two forms. Of the schedule: block_rows and block_keys, where they fit.
// `online` = 0 normalises probabilities before the product; else those that the body rounds are
// rounded first. Warpgroups only if `may_group`. Empty where a row does not fit into registers and
// shared memory, or there are more than 2^30 keys or rows.
std::optional<Tiling> choose_flash_attention(const HalfAttention& attention,
                                             const Schedule& schedule, int64_t processors,
                                             bool may_group);

// `attention` is as tiled_attention() gives it. kInvalidInput says what does not fit it or a block.
Status verify(const FlashAttentionTiling& tiling, const HalfAttention& attention);
Status verify(const WarpgroupAttentionTiling& tiling, const HalfAttention& attention);

}  // namespace common
