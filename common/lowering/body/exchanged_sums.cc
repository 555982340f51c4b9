#include "common/lowering/body/exchanged_sums.h"

#include <algorithm>

#include "common/base/contains.h"

namespace common {
namespace {

constexpr int64_t kChunkBytes = 16;
constexpr int64_t kHalfBytes = 2;

// The half type of all casts that read the node; none where something else reads it.
std::optional<DType> rounded_by_readers(const Graph& body, NodeId id) {
  for (const GraphOutput& output : body.outputs) {
    if (output.node == id) return std::nullopt;
  }
  std::optional<DType> type;
  for (const Node& node : body.nodes) {
    if (!contains(node.operands, id)) continue;
    if (node.op != Op::kCast || !is_half(node.dtype) || type.value_or(node.dtype) != node.dtype) {
      return std::nullopt;
    }
    type = node.dtype;
  }
  return type;
}

}  // namespace

std::optional<DType> exchanged_sums(const Contraction& contraction) {
  const Graph& body = contraction.body();
  if (contraction.node().dtype != DType::kFloat32 || contraction.output_runs_along_rows()) {
    return std::nullopt;
  }
  int64_t bytes = dtype_size(DType::kFloat32);
  for (const GraphOutput& output : body.outputs) {
    bytes = std::min(bytes, dtype_size(body.node(output.node).dtype));
  }
  if (bytes != kHalfBytes ||
      !exact_div(contraction.problem().n_size, Expr(kChunkBytes / kHalfBytes))) {
    return std::nullopt;
  }
  return rounded_by_readers(body, contraction.id());
}

}  // namespace common
