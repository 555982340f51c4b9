#include "worker/codegen/cuda/tile/tile.h"

#include "common/lowering/body/contraction.h"
#include "worker/codegen/cuda/tile/tile_mma.h"
#include "worker/codegen/cuda/tile/tile_simt.h"
#include "worker/codegen/cuda/tile/tile_skinny.h"
#include "worker/codegen/cuda/tile/tile_wgmma.h"
#include "worker/codegen/text/half_operands.h"

namespace worker {

using common::Contraction;
using common::DType;
using common::GpuFunction;
using common::Graph;
using common::NodeId;
using common::Op;
using common::Result;
using common::Schedule;
using common::Side;

namespace {

// The only one; -1 when there is none, or more.
NodeId contraction_of(const Graph& body) {
  NodeId found = -1;
  for (size_t k = 0; k < body.nodes.size(); ++k) {
    if (body.nodes[k].op != Op::kContract) continue;
    if (found >= 0) return -1;
    found = static_cast<NodeId>(k);
  }
  return found;
}

}  // namespace

Result<GpuFunction> emit_cuda_tile(const Graph& body, const Schedule& schedule, bool warpgroups) {
  NodeId id = contraction_of(body);
  if (id < 0) return common::unsupported("a tile kernel holds one contraction");
  Graph narrow = with_half_operands(body, id);
  Contraction contraction(narrow, contraction_of(narrow));
  if (cuda_tile_is_skinny(contraction)) return emit_cuda_tile_skinny(narrow, contraction, schedule);
  if (warpgroups && cuda_tile_is_wgmma(contraction, schedule)) {
    return emit_cuda_tile_wgmma(narrow, contraction, schedule);
  }
  DType left = contraction.operand_dtype(Side::kLeft);
  if (common::is_half(left) && left == contraction.operand_dtype(Side::kRight)) {
    return emit_cuda_tile_mma(narrow, contraction, schedule);
  }
  return emit_cuda_tile_simt(narrow, contraction, schedule);
}

}  // namespace worker
