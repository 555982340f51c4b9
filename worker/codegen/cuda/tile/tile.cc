#include "worker/codegen/cuda/tile/tile.h"

#include "common/lowering/body/contraction.h"
#include "common/lowering/body/half_operands.h"
#include "common/schedule/template_fit.h"
#include "common/schedule/tile_shape.h"
#include "worker/codegen/cuda/tile/tile_grouped.h"
#include "worker/codegen/cuda/tile/tile_mma.h"
#include "worker/codegen/cuda/tile/tile_simt.h"
#include "worker/codegen/cuda/tile/tile_skinny.h"
#include "worker/codegen/cuda/tile/tile_wgmma.h"
#include "worker/codegen/cuda/tile/wgmma_size.h"

namespace worker {

using common::Contraction;
using common::DType;
using common::GpuFunction;
using common::Graph;
using common::has_row_order;
using common::NodeId;
using common::only_contraction;
using common::Result;
using common::Schedule;
using common::Side;
using common::with_half_operands;

Result<GpuFunction> emit_cuda_tile(const Graph& body, const Schedule& schedule,
                                   const CudaMachine& machine) {
  if (auto pair = common::paired_products(body)) {
    if (auto size = choose_wgmma_size(*pair, schedule, machine)) {
      return emit_cuda_tile_pair(*pair, *size);
    }
  }
  NodeId id = only_contraction(body);
  if (id < 0) return common::unsupported("a tile kernel holds one contraction");
  Graph narrow = with_half_operands(body, id);
  if (has_row_order(narrow)) return emit_cuda_tile_grouped(narrow, schedule, machine);
  Contraction contraction(narrow, only_contraction(narrow));
  if (common::is_few(contraction, Side::kLeft) || common::is_few(contraction, Side::kRight)) {
    return emit_cuda_tile_skinny(narrow, contraction, schedule, machine);
  }
  if (auto size = choose_wgmma_size(contraction, schedule, machine)) {
    if (size->patch > 0) return emit_cuda_tile_patch(narrow, contraction, *size);
    return size->is_copied ? emit_cuda_tile_tma(narrow, contraction, *size)
                           : emit_cuda_tile_wgmma(narrow, contraction, *size);
  }
  DType left = contraction.operand_dtype(Side::kLeft);
  if (common::is_half(left) && left == contraction.operand_dtype(Side::kRight)) {
    return emit_cuda_tile_mma(narrow, contraction, schedule, machine);
  }
  return emit_cuda_tile_simt(narrow, contraction, schedule, machine);
}

}  // namespace worker
