#include "worker/codegen/c/attention_sizes.h"

#include <algorithm>

namespace worker {

using common::AttentionForm;
using common::DType;
using common::Expr;
using common::Schedule;
using common::Template;

namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

int64_t AttentionSizes::query_stride() const { return round_up(depth, lanes) + lanes; }

int64_t AttentionSizes::sum_stride() const { return round_up(width, product.nr); }

int64_t AttentionSizes::packed_keys() const { return round_up(keys, scores.nr); }

Expr AttentionSizes::score_stride() const {
  Expr row = packed_keys() + lanes;
  if (!online) row = common::floor_div(key_count + Expr(63), Expr(64)) * Expr(64) + row;
  return row;
}

AttentionSizes attention_sizes(const AttentionForm& form, int64_t depth, DType dtype,
                               const Schedule& schedule, int vector_bytes) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kAttention, name);
  };
  AttentionSizes s;
  s.depth = depth;
  s.width = form.size(form.columns).constant();
  s.rows = given("rows") != 0 ? given("rows") : common::kAttentionRows;
  s.keys = given("keys") != 0 ? given("keys") : common::kAttentionKeys;
  s.row_count = form.size(form.rows);
  if (s.row_count.is_constant()) {
    s.rows = std::clamp<int64_t>(s.row_count.constant(), 1, s.rows);
    s.skinny = s.row_count.constant() <= common::kAttentionSkinnyRows;
  }
  s.key_count = form.label_size[static_cast<size_t>(form.key)];
  if (s.key_count.is_constant()) {
    s.keys = std::min(s.keys, std::max<int64_t>(s.key_count.constant(), 1));
  }
  common::TileProblem problem;
  problem.dtype = dtype;
  problem.m_size = s.rows;
  problem.n_size = s.keys;
  problem.k_size = s.depth;
  s.scores = choose_tile(problem, {}, vector_bytes);
  problem.n_size = s.width;
  problem.k_size = s.keys;
  s.product = choose_tile(problem, {}, vector_bytes);
  s.lanes = s.scores.lanes;
  s.online = form.weights.scales_rows && given("online") != 0;
  return s;
}

}  // namespace worker
