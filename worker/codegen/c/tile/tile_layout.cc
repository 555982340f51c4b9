#include "worker/codegen/c/tile/tile_layout.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"
#include "common/schedule/kernels/tile_reads.h"

namespace worker {

TileLayout tile_layout(const common::Contraction& product, const common::RegisterTiling& t,
                       const common::VectorUnit& unit) {
  TileLayout l;
  l.tiling = t;
  l.steps = tile_steps(product, unit);
  int64_t vector = unit.bytes / common::dtype_size(product.node().dtype);
  l.lanes = t.matrices ? common::kMatrixSide : vector;
  if (t.columns_in_place) l.column_step = columns_lie_in_place(product, l.steps, vector);
  l.row_run = rows_lie_in_place(product, l.steps);
  l.row_stride = (t.kc + l.lanes - 1) / l.lanes * l.lanes + l.lanes;
  l.single_block = l.steps.count.is_constant() && l.steps.count.constant() <= t.kc;
  // Zeros fill up what is packed, but what is read in place ends where it ends.
  l.ends_in_half = l.steps.may_be_odd && (t.rows_in_place || t.columns_in_place);
  l.type = common::c_value_type(product.node().dtype);
  l.vector = common::cat("lf_", l.type, l.lanes);
  return l;
}

}  // namespace worker
