// Attention of few rows on a GPU by plain multiply-adds: which threads hold a row's elements, and
// how many threads and blocks share the keys.
#pragma once

#include <optional>

#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"

namespace common {

// Rows that share the keys and values that are read, at most.
inline constexpr int64_t kFewRows = 8;
// Elements of a query, key or value that a thread holds.
inline constexpr int64_t kSkinnyAttentionChunk = 8;

struct SkinnyAttentionTiling {
  static constexpr std::string_view kForm = "attention_skinny";
  int64_t threads = 512;  // of a block
  int64_t group = 1;      // threads that share a key
  int64_t ahead = 4;      // keys that a group reads before it uses the first
  int64_t splits = 1;     // blocks that share the keys
  // Rows are normalised after the product; otherwise a first pass finds each row's sum.
  bool online = true;
  bool keeps_parts = false;  // where online; see may_keep_parts()

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("threads", t.threads);
    visit("group", t.group);
    visit("ahead", t.ahead);
    visit("splits", t.splits);
    visit("online", t.online);
    visit("keeps_parts", t.keeps_parts);
  }
};

// `form` is that of `body`, with half-precision operands where it has such. Of the schedule: splits
// and online, where they fit. Empty unless it is an attention in float32 of so few rows (a
// constant) for each of its keys and values, and these of so few elements, that a group of threads
// can hold them all.
std::optional<SkinnyAttentionTiling> choose_skinny_attention(const Graph& body,
                                                             const AttentionForm& form,
                                                             const Schedule& schedule,
                                                             int64_t processors);

// kInvalidInput says what does not fit the attention or a block.
Status verify(const SkinnyAttentionTiling& tiling, const Graph& body, const AttentionForm& form);

// Whether the last of the `splits` blocks of few rows can hold all blocks' parts in registers: it
// loads them together with their sums, as the compiler moves no load before the barriers between.
bool may_keep_parts(const AttentionForm& form, int64_t threads, int64_t splits);
// Whether they are so few that it should.
bool should_keep_parts(const AttentionForm& form, int64_t threads, int64_t splits);

// Bytes of shared memory in which a block of few rows keeps its `parts` and merges those of
// `splits` blocks: sums, greatest scores and totals.
int64_t few_rows_shared_bytes(const AttentionForm& form, int64_t parts, int64_t splits);

}  // namespace common
