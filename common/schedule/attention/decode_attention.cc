#include "common/schedule/attention/decode_attention.h"

#include <algorithm>

#include "common/base/divide_up.h"
#include "common/cost/gpu_shared_memory.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/wrong_tiling.h"
#include "common/lowering/attention/attention_operands.h"
#include "common/lowering/attention/attention_reads.h"
#include "common/schedule/attention/decode_blocks.h"
#include "common/schedule/attention/skinny_attention.h"
#include "common/schedule/gpu_splits.h"

namespace common {
namespace {

constexpr int64_t kWidthMax = 256;
constexpr int64_t kDecodeKeysMax = 1 << 30;  // counted in 32 bits
constexpr int64_t kWarpsMax = 16;
// The least steps of a block for which it scans the masks for visible keys: the scan takes as long
// as one step.
constexpr int64_t kStepsToFind = 4;

bool is_decode(const HalfAttention& a) {
  const AttentionForm& form = a.form;
  const Expr rows = form.size(form.rows);
  const int64_t width = form.size(form.columns).constant();
  const int64_t depth = attention_depth(a.body, form);
  CodeWriter writer(a.body.symbols);
  AttentionOperands operands(a.body, form, writer);
  return form.weights.scales_rows &&
         Bounds(a.body.symbols, {}).upper(form.size({form.key})) <= kDecodeKeysMax &&
         a.body.node(form.product).dtype == DType::kFloat32 &&
         a.body.node(operands.values()).dtype == DType::kBfloat16 && rows.is_constant() &&
         rows.constant() >= 1 && rows.constant() <= kFewRows && depth % kHalfChunk == 0 &&
         width % kHalfChunk == 0 && std::max(depth, width) <= kWidthMax;
}

// Of how many warps blocks are and how many share the keys: those that are predicted to take least
// over the sizes that there may be.
DecodeBlocks blocks_of(const HalfAttention& a, const Schedule& schedule, int64_t processors) {
  const AttentionForm& form = a.form;
  const DecodeBlocks given =
      given_decode_blocks(schedule_value(schedule, Template::kAttention, "block_keys"),
                          schedule_value(schedule, Template::kAttention, "splits"));
  std::vector<WeightedShape> shapes;
  for (const WeightedSizes& each : priced_sizes(a.body.symbols)) {
    auto value = [&](const Expr& size) { return std::max<int64_t>(1, size.evaluate(each.sizes)); };
    shapes.push_back(
        {{value(form.size(form.batch)), value(form.size(form.rows)), value(form.size({form.key})),
          attention_depth(a.body, form), value(form.size(form.columns))},
         each.weight});
  }
  return decode_blocks(shapes, given, processors);
}

}  // namespace

std::optional<DecodeAttentionTiling> choose_decode_attention(const HalfAttention& a,
                                                             const Schedule& schedule,
                                                             int64_t processors) {
  if (schedule_value(schedule, Template::kAttention, "online") == 0 || !is_decode(a)) return {};
  const DecodeBlocks blocks = blocks_of(a, schedule, processors);
  const Expr keys = a.form.size({a.form.key});
  const int64_t step = blocks.splits * blocks.warps * kDecodeWarpKeys;
  DecodeAttentionTiling t{blocks.warps, blocks.splits};
  t.reads_masks = a.form.is_hidden_by_masks() &&
                  (!keys.is_constant() || divide_up(keys.constant(), step) >= kStepsToFind);
  t.keeps_parts = should_keep_parts(a.form, t.threads(), t.splits);
  return t;
}

Status verify(const DecodeAttentionTiling& t, const HalfAttention& a) {
  if (!is_decode(a)) return wrong_tiling(t, "one pass does not compute the attention");
  if (t.warps < 1 || t.warps > kWarpsMax) return wrong_tiling(t, "warps make no block");
  if (t.splits < 1 ||
      t.splits > gpu_splits_max(a.form.size({a.form.key}), t.warps * kDecodeWarpKeys)) {
    return wrong_tiling(t, "blocks without keys");
  }
  if (t.reads_masks && !a.form.is_hidden_by_masks()) {
    return wrong_tiling(t, "not masks alone hide keys");
  }
  const int64_t rows = a.form.size(a.form.rows).constant();
  const int64_t bytes =
      rows * attention_depth(a.body, a.form) * 2 + few_rows_shared_bytes(a.form, t.warps, t.splits);
  if (bytes > kGpuSharedBytesMax) return wrong_tiling(t, "parts exceed the shared memory");
  if (t.keeps_parts && !may_keep_parts(a.form, t.threads(), t.splits)) {
    return wrong_tiling(t, "parts exceed the registers");
  }
  return {};
}

}  // namespace common
