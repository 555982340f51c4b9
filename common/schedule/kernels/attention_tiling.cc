#include "common/schedule/kernels/attention_tiling.h"

#include <algorithm>

#include "common/ir/llir/wrong_tiling.h"
#include "common/lowering/attention/attention_operands.h"
#include "common/schedule/kernels/register_tiling.h"

namespace common {
namespace {

// Vectors of a register tile that never reach past a row of values.
int64_t whole_vectors(int64_t width, int64_t lanes) {
  int64_t vectors = std::min<int64_t>(width / lanes, 4);
  while (width % (vectors * lanes) != 0) --vectors;
  return vectors;
}

int64_t vector_elements(const Graph& body, const AttentionForm& form, const VectorUnit& unit) {
  return unit.bytes / dtype_size(body.node(form.product).dtype);
}

}  // namespace

AttentionTiling choose_attention_tiling(const Graph& body, const AttentionForm& form,
                                        const Schedule& schedule, const VectorUnit& unit) {
  auto given = [&](std::string_view name) {
    return schedule_value(schedule, Template::kAttention, name);
  };
  AttentionTiling t;
  t.rows = given("rows") != 0 ? given("rows") : kAttentionRows;
  t.keys = given("keys") != 0 ? given("keys") : kAttentionKeys;
  Expr rows = form.size(form.rows);
  if (rows.is_constant()) {
    t.rows = std::clamp<int64_t>(rows.constant(), 1, t.rows);
    t.dots = rows.constant() <= kAttentionSkinnyRows;
  }
  const Expr& keys = form.label_size[static_cast<size_t>(form.key)];
  if (keys.is_constant()) t.keys = std::clamp<int64_t>(keys.constant(), 1, t.keys);
  TileProblem problem;
  problem.dtype = body.node(form.product).dtype;
  problem.m_size = t.rows;
  problem.n_size = t.keys;
  problem.k_size = attention_depth(body, form);
  RegisterTiling scores = choose_register_tiling(problem, unit);
  const int64_t width = form.size(form.columns).constant();
  problem.n_size = width;
  problem.k_size = t.keys;
  RegisterTiling sums = choose_register_tiling(problem, unit);
  const int64_t lanes = vector_elements(body, form, unit);
  if (t.dots && width % lanes == 0) sums.nr = whole_vectors(width, lanes) * lanes;
  t.score_mr = t.dots ? 0 : scores.mr;
  t.score_nr = t.dots ? 0 : scores.nr;
  t.sum_mr = sums.mr;
  t.sum_nr = sums.nr;
  t.online = form.weights.scales_rows && given("online") != 0;
  t.reads_masks = form.is_hidden_by_masks();
  return t;
}

Status verify(const AttentionTiling& t, const Graph& body, const AttentionForm& form,
              const VectorUnit& unit) {
  auto wrong = [&](std::string_view why) { return wrong_tiling(t, why); };
  // Sums that are written out: far more than registers hold.
  constexpr int64_t kVectorsMax = 128;
  const int64_t lanes = vector_elements(body, form, unit);
  const Expr rows = form.size(form.rows);
  if (t.rows < 1 || t.keys < 1) return wrong("a size is 0");
  auto is_tile = [&](int64_t mr, int64_t nr) {
    return mr > 0 && nr > 0 && nr % lanes == 0 && mr * nr <= kVectorsMax * lanes;
  };
  if (!is_tile(t.sum_mr, t.sum_nr)) return wrong("sums are no register tile");
  if (t.dots ? t.score_mr + t.score_nr != 0 : !is_tile(t.score_mr, t.score_nr)) {
    return wrong("scores are no register tile");
  }
  // They are written out, and all rows are of one unit.
  const bool is_one_unit = rows.is_constant() && std::max<int64_t>(1, rows.constant()) == t.rows;
  if (t.dots && !(is_one_unit && t.rows <= kAttentionSkinnyRows)) {
    return wrong("dot products are for one unit of few rows");
  }
  if (t.online && !form.weights.scales_rows) {
    return wrong("online softmax needs weights that are multiples of probabilities");
  }
  if (t.reads_masks && !form.is_hidden_by_masks()) return wrong("not masks alone hide keys");
  return {};
}

}  // namespace common
