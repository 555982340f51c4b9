#include "common/schedule/attention/skinny_attention.h"

#include <algorithm>
#include <bit>

#include "common/cost/gpu_shared_memory.h"
#include "common/ir/llir/wrong_tiling.h"
#include "common/lowering/attention/attention_operands.h"
#include "common/schedule/gpu_splits.h"

namespace common {
namespace {

constexpr int64_t kWarp = 32, kThreadsMax = 1024, kAheadMax = 16;
// Of other blocks, that registers hold and that they hold at no cost.
constexpr int64_t kPartsMax = 32, kFewParts = 16;

int64_t longest_row(const Graph& body, const AttentionForm& form) {
  return std::max(attention_depth(body, form), form.size(form.columns).constant());
}

bool is_skinny(const Graph& body, const AttentionForm& form) {
  const Expr rows = form.size(form.rows);
  return body.node(form.product).dtype == DType::kFloat32 && rows.is_constant() &&
         rows.constant() >= 1 && rows.constant() <= kFewRows &&
         attention_depth(body, form) % kSkinnyAttentionChunk == 0 &&
         form.size(form.columns).constant() % kSkinnyAttentionChunk == 0 &&
         longest_row(body, form) <= kSkinnyAttentionChunk * kWarp;
}

}  // namespace

std::optional<SkinnyAttentionTiling> choose_skinny_attention(const Graph& body,
                                                             const AttentionForm& form,
                                                             const Schedule& schedule,
                                                             int64_t processors) {
  if (!is_skinny(body, form)) return std::nullopt;
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kAttention, name);
  };
  SkinnyAttentionTiling t;
  t.online = form.weights.scales_rows && given("online") != 0;
  // Registers for more rows than these leave room for fewer threads.
  t.threads = form.size(form.rows).constant() <= 2 ? 512 : 256;
  while (t.group * kSkinnyAttentionChunk < longest_row(body, form)) t.group *= 2;
  t.splits = gpu_splits(form.size(form.batch), form.size({form.key}), t.threads / t.group * t.ahead,
                        given("splits"), body.symbols, processors);
  t.keeps_parts = t.online && should_keep_parts(form, t.threads, t.splits);
  return t;
}

Status verify(const SkinnyAttentionTiling& t, const Graph& body, const AttentionForm& form) {
  if (!is_skinny(body, form)) return wrong_tiling(t, "a group cannot hold the attention's rows");
  if (t.threads < kWarp || t.threads > kThreadsMax || t.threads % kWarp != 0) {
    return wrong_tiling(t, "threads make no block");
  }
  // Groups exchange what they have within a warp.
  if (t.group > kWarp || !std::has_single_bit(static_cast<uint64_t>(t.group)) ||
      t.group * kSkinnyAttentionChunk < longest_row(body, form)) {
    return wrong_tiling(t, "a group does not hold a row");
  }
  if (t.ahead < 1 || t.ahead > kAheadMax) return wrong_tiling(t, "keys exceed the registers");
  const Expr keys = form.size({form.key});
  const int64_t parts = t.threads / t.group;
  if (t.splits < 1 || t.splits > gpu_splits_max(keys, parts * t.ahead)) {
    return wrong_tiling(t, "blocks without keys");
  }
  if (t.online && !form.weights.scales_rows) {
    return wrong_tiling(t, "online softmax needs weights that are multiples of probabilities");
  }
  if (few_rows_shared_bytes(form, parts, t.splits) > kGpuSharedBytesMax) {
    return wrong_tiling(t, "parts exceed the shared memory");
  }
  if (t.keeps_parts && !(t.online && may_keep_parts(form, t.threads, t.splits))) {
    return wrong_tiling(t, "parts exceed the registers");
  }
  return {};
}

bool may_keep_parts(const AttentionForm& form, int64_t threads, int64_t splits) {
  // A thread takes four neighbours of each part.
  const int64_t elements = form.size(form.rows).constant() * form.size(form.columns).constant();
  return splits > 1 && splits <= kPartsMax && elements <= threads * 4;
}

bool should_keep_parts(const AttentionForm& form, int64_t threads, int64_t splits) {
  return splits <= kFewParts && may_keep_parts(form, threads, splits);
}

int64_t few_rows_shared_bytes(const AttentionForm& form, int64_t parts, int64_t splits) {
  const int64_t rows = form.size(form.rows).constant();
  const int64_t width = form.size(form.columns).constant();
  return (parts * rows * width + 2 * std::max(parts, splits) * rows + 2 * rows) *
         int64_t{sizeof(float)};
}

}  // namespace common
