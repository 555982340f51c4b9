#include "common/schedule/attention/threads_attention.h"

#include <algorithm>

#include "common/base/contains.h"
#include "common/base/divide_up.h"
#include "common/cost/gpu_shared_memory.h"
#include "common/ir/llir/wrong_tiling.h"
#include "common/lowering/attention/attention_operands.h"

namespace common {
namespace {

constexpr int64_t kRowsMax = 64, kRowsMin = 16, kKeysMax = 64, kKeysMin = 32;
constexpr int64_t kRows[] = {kRowsMax, 32, kRowsMin}, kKeys[] = {kKeysMax, kKeysMin};
constexpr int64_t kAccumulatorsMax = 64;  // of the product, a thread

int64_t round_up(int64_t value, int64_t step) { return divide_up(value, step) * step; }

bool fits(const ThreadsAttentionTiling& t, const Graph& body, const AttentionForm& form) {
  const ThreadsAttentionSizes z = threads_attention_sizes(t, body, form);
  return t.rows / kProductRows * (z.width_padded / kProductColumns) <= kAccumulatorsMax &&
         z.shared_bytes <= kGpuSharedBytesMax;
}

}  // namespace

// Strides keep vectors of four aligned and spread rows over banks.
ThreadsAttentionSizes threads_attention_sizes(const ThreadsAttentionTiling& t, const Graph& body,
                                              const AttentionForm& form) {
  const int64_t element = dtype_size(body.node(form.product).dtype);
  ThreadsAttentionSizes z;
  z.depth = attention_depth(body, form);
  z.width = form.size(form.columns).constant();
  z.depth_padded = round_up(z.depth, 4);
  z.depth_stride = z.depth_padded + (z.depth_padded / 4 % 2 == 0 ? 4 : 0);
  z.width_padded = round_up(z.width, kProductColumns);
  z.score_stride = t.keys + 8;
  z.query_bytes = t.rows * z.depth_stride * element;
  z.key_bytes = t.keys * z.depth_stride * element;
  z.value_bytes = t.keys * z.width_padded * element;
  z.score_bytes = t.rows * z.score_stride * element;
  z.shared_bytes = z.query_bytes + z.key_bytes + z.value_bytes + z.score_bytes +
                   t.rows * (int64_t{sizeof(double)} + 2 * element);
  return z;
}

std::optional<ThreadsAttentionTiling> choose_threads_attention(const Graph& body,
                                                               const AttentionForm& form,
                                                               const Schedule& schedule,
                                                               int64_t processors) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kAttention, name);
  };
  const Expr rows = form.size(form.rows), batch = form.size(form.batch);
  int64_t most = kRowsMax;
  if (rows.is_constant() && batch.is_constant()) {
    auto blocks = [&](int64_t step) { return batch.constant() * divide_up(rows.constant(), step); };
    while (most > kRowsMin && (blocks(most) < processors || rows.constant() <= most / 2)) most /= 2;
  }
  if (given("block_rows") != 0) most = std::clamp<int64_t>(given("block_rows"), kRowsMin, kRowsMax);
  const int64_t keys_max = given("block_keys") != 0 ? given("block_keys") : kKeysMax;
  for (int64_t tall : kRows) {
    for (int64_t keys : kKeys) {
      ThreadsAttentionTiling t{tall, keys, form.weights.scales_rows && given("online") != 0};
      // Fewer rows with many keys leave threads few products for what they read.
      bool is_even = keys == kKeysMin || tall == kRowsMax;
      if (tall <= most && keys <= keys_max && is_even && fits(t, body, form)) return t;
    }
  }
  return std::nullopt;
}

Status verify(const ThreadsAttentionTiling& t, const Graph& body, const AttentionForm& form) {
  if (!contains(kRows, t.rows) || !contains(kKeys, t.keys)) {
    return wrong_tiling(t, "threads do not share such a block");
  }
  if (t.online && !form.weights.scales_rows) {
    return wrong_tiling(t, "online softmax needs weights that are multiples of probabilities");
  }
  if (!fits(t, body, form)) return wrong_tiling(t, "a block exceeds registers or shared memory");
  return {};
}

}  // namespace common
