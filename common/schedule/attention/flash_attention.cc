#include "common/schedule/attention/flash_attention.h"

#include <algorithm>

#include "common/base/contains.h"
#include "common/ir/llir/wrong_tiling.h"
#include "common/lowering/attention/attention_operands.h"
#include "common/lowering/attention/attention_reads.h"
#include "common/schedule/attention/flash_blocks.h"

namespace common {
namespace {

constexpr int64_t kCountMax = 1 << 30;  // of rows and of keys, which are counted in 32 bits
// What a symbol may be where blocks are chosen.
constexpr int64_t kTypicalSize = 2048;
// Labels of rows that are as many make blocks of their own; blocks of fewer mix labels.
constexpr int64_t kLongRows = 64;

constexpr int64_t kFlashRowsMax = 128, kTilesMax = 2;
// Of warpgroups: rows of one, how many there may be, and the keys whose scores one product makes
// (worker/codegen/cuda/support/wgmma.cuh).
constexpr int64_t kGroupRows = 64, kGroupsMax = 2;
constexpr int64_t kGroupKeys[] = {64, 128};

bool mixes_labels(const AttentionForm& form) {
  if (form.rows.size() < 2) return true;
  const Expr& last = form.label_size[static_cast<size_t>(form.rows.back())];
  return last.is_constant() && last.constant() < kLongRows;
}

bool is_counted(const HalfAttention& a) {
  Bounds bounds(a.body.symbols, {});
  return !a.form.rows.empty() && a.body.node(a.form.product).dtype == DType::kFloat32 &&
         bounds.upper(a.form.size({a.form.key})) <= kCountMax &&
         bounds.upper(a.form.size(a.form.rows)) <= kCountMax;
}

FlashShape shape_of(const HalfAttention& a, bool online) {
  const AttentionForm& form = a.form;
  auto typical = [](const Expr& size) {
    return size.is_constant() ? std::max<int64_t>(1, size.constant()) : kTypicalSize;
  };
  FlashShape shape{typical(form.size(form.batch)), typical(form.size(form.rows)),
                   typical(form.size({form.key})), attention_depth(a.body, form),
                   form.size(form.columns).constant()};
  shape.two_parts = !form.weights.rounds_to && !a.rounds;
  shape.two_passes = !online;
  return shape;
}

// Whether warpgroups can compute the attention, with tensor maps whose boxes hold `keys` keys.
bool may_be_grouped(const HalfAttention& a, int64_t keys) {
  CodeWriter writer(a.body.symbols);
  AttentionOperands operands(a.body, a.form, writer);
  const DType values = a.body.node(operands.values()).dtype;
  const bool has_rests = !a.rounds && a.body.node(operands.probabilities()).dtype != values;
  // Of float16 the second parts may be 0, where an infinite value would become NaN.
  if (has_rests && values == DType::kFloat16) return false;
  return attention_map(a.body, a.form, attention_keys(a.form, operands), keys) &&
         attention_map(a.body, a.form, attention_values(a.form, operands), keys);
}

// Of both forms.
template <class T>
Status verify_rows(const T& t, const HalfAttention& a, bool online) {
  if (!is_counted(a)) return wrong_tiling(t, "other types, no rows or too many keys");
  if (online && !a.form.weights.scales_rows) {
    return wrong_tiling(t, "online softmax needs weights that are multiples of probabilities");
  }
  if (t.rounds_first && !online)
    return wrong_tiling(t, "rounded probabilities are normalised last");
  return {};
}

}  // namespace

AttentionForm with_one_row_label(AttentionForm form) {
  form.batch.insert(form.batch.end(), form.rows.begin(), form.rows.end() - 1);
  form.rows = {form.rows.back()};
  return form;
}

std::optional<HalfAttention> tiled_attention(const HalfAttention& attention, bool one_label,
                                             bool rounds_first) {
  std::optional<HalfAttention> tiled = attention;
  if (rounds_first) {
    tiled = attention.form.weights.scales_rows ? std::nullopt : rounded_before(attention);
  }
  if (!tiled || (one_label && tiled->form.rows.size() < 2)) return std::nullopt;
  if (one_label) tiled->form = with_one_row_label(std::move(tiled->form));
  return tiled;
}

std::optional<Tiling> choose_flash_attention(const HalfAttention& attention,
                                             const Schedule& schedule, int64_t processors,
                                             bool may_group) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kAttention, name);
  };
  const bool one_label = !mixes_labels(attention.form);
  auto rounded = given("online") != 0 ? tiled_attention(attention, one_label, true) : std::nullopt;
  const bool rounds_first = rounded.has_value();
  const HalfAttention a =
      rounded ? *std::move(rounded) : *tiled_attention(attention, one_label, false);
  if (!is_counted(a)) return std::nullopt;
  const bool online = given("online") != 0 && a.form.weights.scales_rows;
  const FlashBlocks wish{given("block_rows"), given("block_keys")};
  FlashShape shape = shape_of(a, online);
  shape.warpgroups = may_group && online;
  auto blocks = flash_blocks(shape, wish, processors);
  if (blocks && blocks->warpgroups) {
    if (may_be_grouped(a, blocks->keys)) {
      return to_tiling(
          WarpgroupAttentionTiling{blocks->rows, blocks->keys, one_label, rounds_first});
    }
    shape.warpgroups = false;
    blocks = flash_blocks(shape, wish, processors);
  }
  if (!blocks) return std::nullopt;
  return to_tiling(FlashAttentionTiling{blocks->rows, blocks->keys, blocks->tiles(), one_label,
                                        online, rounds_first});
}

Status verify(const FlashAttentionTiling& t, const HalfAttention& a) {
  LFARM_RETURN_IF_ERROR(verify_rows(t, a, t.online));
  // Keys are multiplied 16 at a time; a warp's lanes find the limits of 32 rows, a block's first
  // four warps those of all.
  if (t.tiles < 1 || t.tiles > kTilesMax || t.rows < 16 || t.rows > kFlashRowsMax ||
      (t.rows != 16 && t.rows % 32 != 0) || t.rows % (16 * t.tiles) != 0 || t.keys < 16 ||
      t.keys % 16 != 0) {
    return wrong_tiling(t, "warps do not share such a block");
  }
  if (!flash_fits(shape_of(a, t.online), {t.rows, t.keys}, t.tiles)) {
    return wrong_tiling(t, "a block exceeds registers or shared memory");
  }
  return {};
}

Status verify(const WarpgroupAttentionTiling& t, const HalfAttention& a) {
  LFARM_RETURN_IF_ERROR(verify_rows(t, a, true));
  if (t.rows < kGroupRows || t.rows % kGroupRows != 0 || t.rows > kGroupRows * kGroupsMax ||
      !contains(kGroupKeys, t.keys)) {
    return wrong_tiling(t, "warpgroups do not share such a block");
  }
  if (!flash_fits(shape_of(a, true), {t.rows, t.keys, true}, 1)) {
    return wrong_tiling(t, "a block exceeds registers or shared memory");
  }
  if (!may_be_grouped(a, t.keys)) {
    return wrong_tiling(t, "keys or values that the copy engine cannot bring");
  }
  return {};
}

}  // namespace common
