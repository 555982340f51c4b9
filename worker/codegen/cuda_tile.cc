#include "worker/codegen/cuda_tile.h"

#include "worker/codegen/contraction.h"
#include "worker/codegen/cuda_tile_simt.h"

namespace worker {

using common::Graph;
using common::NodeId;
using common::Op;
using common::Result;
using common::Schedule;

Result<CudaFunction> emit_cuda_tile(const Graph& body, const Schedule& schedule) {
  NodeId id = -1;
  for (size_t k = 0; k < body.nodes.size(); ++k) {
    if (body.nodes[k].op != Op::kContract) continue;
    if (id >= 0) return common::unsupported("a tile kernel holds one contraction");
    id = static_cast<NodeId>(k);
  }
  if (id < 0) return common::unsupported("a tile kernel holds a contraction");
  Contraction contraction(body, id);
  return emit_cuda_tile_simt(body, contraction, schedule);
}

}  // namespace worker
