#include "worker/codegen/c/attention_sizes.h"

#include "common/lowering/attention/attention_operands.h"

namespace worker {

using common::AttentionForm;
using common::AttentionTiling;
using common::Expr;
using common::Graph;

namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

int64_t AttentionSizes::query_stride() const { return round_up(depth, lanes) + lanes; }

int64_t AttentionSizes::sum_stride() const { return round_up(width, tiling.sum_nr); }

int64_t AttentionSizes::packed_keys() const {
  return round_up(tiling.keys, tiling.dots ? lanes : tiling.score_nr);
}

Expr AttentionSizes::score_stride() const {
  Expr row = packed_keys() + lanes;
  if (!tiling.online) row = common::floor_div(key_count + Expr(63), Expr(64)) * Expr(64) + row;
  return row;
}

AttentionSizes attention_sizes(const Graph& body, const AttentionForm& form,
                               const AttentionTiling& tiling, const common::VectorUnit& unit) {
  AttentionSizes s;
  s.tiling = tiling;
  s.lanes = unit.bytes / common::dtype_size(body.node(form.product).dtype);
  s.depth = common::attention_depth(body, form);
  s.width = form.size(form.columns).constant();
  s.row_count = form.size(form.rows);
  s.key_count = form.label_size[static_cast<size_t>(form.key)];
  return s;
}

}  // namespace worker
