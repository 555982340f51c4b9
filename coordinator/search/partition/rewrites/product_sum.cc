#include "coordinator/search/partition/rewrites/product_sum.h"

namespace coordinator {

using common::attr;
using common::Op;

bool is_product_sum(const common::Graph& graph, const common::Node& node) {
  if (node.op != Op::kReduce || attr<common::ReduceAttr>(node).op != common::ReduceOp::kSum) {
    return false;
  }
  const common::Node& operand = graph.node(node.operands[0]);
  return operand.op == Op::kBinary &&
         attr<common::BinaryAttr>(operand).op == common::BinaryOp::kMul;
}

}  // namespace coordinator
