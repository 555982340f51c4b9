// Attention of few rows over long sequences in one pass on tensor cores, as in decoding: how many
// warps and blocks of a GPU share the keys.
#pragma once

#include <optional>

#include "common/ir/llir/llir.h"
#include "common/lowering/attention/half_attention.h"

namespace common {

struct DecodeAttentionTiling {
  static constexpr std::string_view kForm = "attention_decode";
  int64_t warps = 4;   // of a block, each with keys of its own
  int64_t splits = 1;  // blocks that share the keys; the last of them merges their parts
  // Blocks look for the first and the last key that masks leave to be seen.
  bool reads_masks = false;
  bool keeps_parts = false;  // see may_keep_parts()

  int64_t threads() const { return warps * 32; }

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("warps", t.warps);
    visit("splits", t.splits);
    visit("reads_masks", t.reads_masks);
    visit("keeps_parts", t.keeps_parts);
  }
};

// Of the schedule: block_keys and splits, where they fit. Empty unless one pass can compute it: up
// to eight rows, which may be normalised after the product, of half-precision queries and keys and
// bfloat16 values, in rows of whole 16 bytes.
std::optional<DecodeAttentionTiling> choose_decode_attention(const HalfAttention& attention,
                                                             const Schedule& schedule,
                                                             int64_t processors);

// kInvalidInput says what does not fit the attention or a block.
Status verify(const DecodeAttentionTiling& tiling, const HalfAttention& attention);

}  // namespace common
