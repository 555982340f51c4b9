#include "worker/codegen/cuda/tile/tile.h"

#include "common/lowering/body/contraction.h"
#include "common/lowering/body/half_operands.h"
#include "common/schedule/products/mma_tiling.h"
#include "common/schedule/products/skinny_tiling.h"
#include "common/schedule/products/thread_tiling.h"
#include "common/schedule/products/warpgroup_tiling.h"
#include "common/schedule/template_fit.h"
#include "common/schedule/tile_shape.h"
#include "worker/codegen/cuda/tile/tile_mma.h"
#include "worker/codegen/cuda/tile/tile_simt.h"
#include "worker/codegen/cuda/tile/tile_skinny.h"
#include "worker/codegen/cuda/tile/tile_wgmma.h"

namespace worker {

using common::Contraction;
using common::from_tiling;
using common::GpuFunction;
using common::Graph;
using common::NodeId;
using common::only_contraction;
using common::Result;
using common::Side;
using common::Tiling;

namespace {

Result<GpuFunction> emit_warpgroups(const Contraction& contraction, const Tiling& tiling) {
  LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<common::WarpgroupTiling>(tiling));
  LFARM_RETURN_IF_ERROR(common::verify(sizes, contraction));
  if (sizes.patches > 0) return emit_cuda_tile_patch(contraction, sizes);
  return sizes.is_copied ? emit_cuda_tile_tma(contraction, sizes)
                         : emit_cuda_tile_wgmma(contraction, sizes);
}

Result<GpuFunction> emit_product(const Contraction& contraction, const Tiling& tiling,
                                 const CudaMachine& machine) {
  const bool is_skinny = contraction.group() == nullptr &&
                         (is_few(contraction, Side::kLeft) || is_few(contraction, Side::kRight));
  if (is_skinny) {
    LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<common::SkinnyTiling>(tiling));
    LFARM_RETURN_IF_ERROR(common::verify(sizes, contraction));
    return emit_cuda_tile_skinny(contraction, sizes);
  }
  if (tiling.form == common::WarpgroupTiling::kForm && machine.warpgroups) {
    return emit_warpgroups(contraction, tiling);
  }
  if (tiling.form == common::MmaTiling::kForm) {
    LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<common::MmaTiling>(tiling));
    LFARM_RETURN_IF_ERROR(common::verify(sizes, contraction));
    return emit_cuda_tile_mma(contraction, sizes);
  }
  LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<common::ThreadTiling>(tiling));
  LFARM_RETURN_IF_ERROR(common::verify(sizes, contraction));
  return emit_cuda_tile_simt(contraction, sizes);
}

}  // namespace

Result<GpuFunction> emit_cuda_tile(const Graph& body, const Tiling& tiling,
                                   const CudaMachine& machine) {
  if (auto pair = common::paired_products(body); pair && machine.warpgroups) {
    LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<common::WarpgroupTiling>(tiling));
    LFARM_RETURN_IF_ERROR(common::verify(sizes, *pair));
    return emit_cuda_tile_pair(*pair, sizes);
  }
  NodeId id = only_contraction(body);
  if (id < 0) return common::unsupported("a tile kernel holds one contraction");
  Graph narrow = with_half_operands(body, id);
  id = only_contraction(narrow);
  if (!has_row_order(narrow)) return emit_product(Contraction(narrow, id), tiling, machine);
  auto form = grouped_form(narrow, id);
  if (!form) return common::unsupported("rows have an order but no groups");
  const common::GroupProduct product = group_product(narrow, *form);
  return emit_product(Contraction(product), tiling, machine);
}

}  // namespace worker
