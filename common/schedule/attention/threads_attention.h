// Attention on a GPU by plain multiply-adds, for operands of any type: the rows and keys of a
// block, which lie in shared memory.
#pragma once

#include <optional>

#include "common/ir/hlir/attention_form.h"
#include "common/ir/llir/llir.h"

namespace common {

struct ThreadsAttentionTiling {
  static constexpr std::string_view kForm = "attention_threads";
  int64_t rows = 64, keys = 64;  // of a block, of which the keys are those of a step
  // Rows are normalised after the product; otherwise scores are computed twice.
  bool online = true;

  template <class Self, class Visit>
  static void fields(Self& t, Visit visit) {
    visit("rows", t.rows);
    visit("keys", t.keys);
    visit("online", t.online);
  }
};

// What follows from a tiling: elements, and bytes of shared memory.
struct ThreadsAttentionSizes {
  int64_t depth = 1, width = 1;  // of a query, of a value
  int64_t depth_padded = 4, depth_stride = 4;
  int64_t width_padded = 16;  // of a row of values, and of results while they are stored
  int64_t score_stride = 0;   // of a row
  int64_t query_bytes = 0, key_bytes = 0, value_bytes = 0, score_bytes = 0;
  int64_t shared_bytes = 0;  // of all, with the rows' greatest scores and sums
};
// A block's threads, as grids that share its scores and its products.
inline constexpr int64_t kAttentionThreads = 128;
inline constexpr int64_t kScoreColumns = 8, kScoreRows = kAttentionThreads / kScoreColumns;
inline constexpr int64_t kProductColumns = 16, kProductRows = kAttentionThreads / kProductColumns;
ThreadsAttentionSizes threads_attention_sizes(const ThreadsAttentionTiling& tiling,
                                              const Graph& body, const AttentionForm& form);

// `form` is that of `body`. Of the schedule: block_rows, block_keys and online, where they fit.
// Empty where rows, keys and values do not fit into shared memory.
std::optional<ThreadsAttentionTiling> choose_threads_attention(const Graph& body,
                                                               const AttentionForm& form,
                                                               const Schedule& schedule,
                                                               int64_t processors);

// kInvalidInput says what does not fit the attention or a block.
Status verify(const ThreadsAttentionTiling& tiling, const Graph& body, const AttentionForm& form);

}  // namespace common
