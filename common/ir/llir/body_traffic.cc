#include "common/ir/llir/body_traffic.h"

#include <algorithm>

#include "common/ir/expr/index.h"
#include "common/ir/hlir/sizes.h"

namespace common {
namespace {

// How many elements of each node its users ask for, at most all that it has.
class Demand {
 public:
  Demand(const Graph& body, const std::vector<int64_t>& symbols)
      : body_(body), elements_(body.nodes.size(), 0) {
    for (const Node& node : body.nodes) all_.push_back(count_elements(node.shape, symbols));
    for (const GraphOutput& output : body.outputs) ask(output.node, all_[at(output.node)]);
    for (size_t id = body.nodes.size(); id-- > 0;) demand_operands(id);
  }
  double of(NodeId id) const { return elements_[at(id)]; }

 private:
  void ask(NodeId id, double elements) {
    elements_[at(id)] = std::min(all_[at(id)], elements_[at(id)] + elements);
  }

  void demand_operands(size_t id) {
    const Node& node = body_.nodes[id];
    double wanted = elements_[id];
    if (wanted == 0) return;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      NodeId operand = node.operands[k];
      switch (node.op) {
        case Op::kScatter:
          // The base stays where it is.
          if (k != 0) ask(operand, all_[at(operand)]);
          break;
        case Op::kView:
        case Op::kCast:
        case Op::kUnary:
        case Op::kBinary:
        case Op::kSelect:
        case Op::kPhilox:
        case Op::kGather:
          ask(operand, wanted);
          break;
        case Op::kReduce:
          ask(operand, wanted / std::max(1.0, all_[id]) * all_[at(operand)]);
          break;
        default:
          ask(operand, all_[at(operand)]);
      }
    }
  }

  const Graph& body_;
  std::vector<double> all_, elements_;
};

}  // namespace

std::vector<double> bytes_read(const Graph& body, const std::vector<int64_t>& symbols) {
  Demand demand(body, symbols);
  std::vector<double> bytes(body.inputs.size(), 0);
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    const Node& node = body.nodes[id];
    if (node.op != Op::kInput) continue;
    bytes[at(attr<InputAttr>(node).position)] +=
        demand.of(static_cast<NodeId>(id)) * static_cast<double>(dtype_size(node.dtype));
  }
  return bytes;
}

std::vector<double> bytes_written(const Graph& body, const std::vector<int64_t>& symbols) {
  std::vector<double> bytes;
  for (const GraphOutput& output : body.outputs) {
    const Node& node = body.node(output.node);
    const Node& moved = node.op == Op::kScatter ? body.node(node.operands[1]) : node;
    bytes.push_back(count_bytes(node.dtype, moved.shape, symbols));
  }
  return bytes;
}

}  // namespace common
