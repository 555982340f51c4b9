// What the choice of materialised values asks of nodes.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/expr/index.h"
#include "coordinator/search/partition/attention_memo.h"
#include "coordinator/search/partition/materialisation.h"

namespace coordinator {

using common::at;

inline bool is_elementwise(const common::Node& node) { return common::is_elementwise(node.op); }

inline bool is_reductive(const common::Node& node) {
  return node.op == common::Op::kReduce || node.op == common::Op::kSoftmax ||
         node.op == common::Op::kNorm || node.op == common::Op::kContract;
}

inline bool has_own_template(const common::Node& node) {
  return node.op == common::Op::kScan || node.op == common::Op::kScatter ||
         node.op == common::Op::kSort;
}

// Reads elements of the first operand as they are, if in a wider type.
inline bool only_moves(const common::Graph& graph, const common::Node& node) {
  if (node.op == common::Op::kGather) return true;
  return node.op == common::Op::kCast &&
         common::dtype_size(graph.node(node.operands[0]).dtype) <= common::dtype_size(node.dtype);
}

// For each axis of a value, the axis of another that it is.
using Axes = std::vector<int>;

inline Axes same_axes(size_t rank) {
  Axes axes(rank);
  for (size_t k = 0; k < rank; ++k) axes[k] = static_cast<int>(k);
  return axes;
}

// The attention around a contraction that is lowered so, if one kernel can hold it.
std::optional<AttentionParts> attention_at(const Selected& selected,
                                           const Materialised& materialised,
                                           common::NodeId contraction, AttentionMemo& memo);

}  // namespace coordinator
