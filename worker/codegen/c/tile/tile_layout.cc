#include "worker/codegen/c/tile/tile_layout.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"
#include "worker/codegen/c/tile/tile_reads.h"

namespace worker {

namespace {

// Steps along k that are read one after the other lie no further apart: a page.
constexpr int64_t kNearBytes = 4096;

// Beside columns that are packed, rows with shorter runs are, too: every run that is read in place
// is a pass over the sums.
constexpr int64_t kRowRunMin = 64;

// Columns whose steps lie further apart are packed.
std::optional<int64_t> columns_in_place(const common::Contraction& product, const TileSteps& steps,
                                        const VectorUnit& unit) {
  int64_t size = common::dtype_size(product.node().dtype);
  auto step = columns_lie_in_place(product, steps, unit.bytes / size);
  return step && *step * size <= kNearBytes ? step : std::nullopt;
}

}  // namespace

TileLayout tile_layout(const common::Contraction& product, const common::Schedule& schedule,
                       const VectorUnit& unit) {
  TileLayout l;
  l.steps = tile_steps(product, unit);
  l.column_step = columns_in_place(product, l.steps, unit);
  l.has_tiles = unit.has_tiles && l.steps.has_pairs();
  int64_t run = l.has_tiles ? 0 : rows_lie_in_place(product, l.steps);
  l.reads.columns = l.column_step.has_value();
  if (run >= kRowRunMin || l.reads.columns || l.steps.has_pairs()) {
    l.reads.row_run = run;
  } else if (run != 0) {
    l.reads.copied_run = run;
  }
  common::TileProblem problem = l.steps.problem(product);
  l.params = l.has_tiles ? choose_matrix_tile(problem, schedule, l.reads)
                         : choose_tile(problem, schedule, unit.bytes, l.reads);
  l.rows_in_place = l.reads.rows(l.params);
  const TileParams& t = l.params;
  l.row_stride = (t.kc + t.lanes - 1) / t.lanes * t.lanes + t.lanes;
  l.single_block = l.steps.count.is_constant() && l.steps.count.constant() <= t.kc;
  // Zeros fill up what is packed, but what is read in place ends where it ends.
  l.ends_in_half = l.steps.may_be_odd && (l.rows_in_place || l.column_step);
  l.type = common::c_value_type(product.node().dtype);
  l.vector = common::cat("lf_", l.type, t.lanes);
  return l;
}

}  // namespace worker
