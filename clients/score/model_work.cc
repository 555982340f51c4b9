#include "clients/score/model_work.h"

#include <algorithm>
#include <cmath>

#include "common/ir/hlir/sizes.h"

namespace clients {
namespace {

using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;

size_t at(int index) { return static_cast<size_t>(index); }

// By node: whether what it computes depends on any input.
std::vector<char> depends_on_inputs(const Graph& graph) {
  std::vector<char> depends(graph.nodes.size(), 0);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    depends[n] = graph.nodes[n].op == Op::kInput ? 1 : 0;
    for (NodeId operand : graph.nodes[n].operands) depends[n] |= depends[at(operand)];
  }
  return depends;
}

// Of a transform as fast as there is.
double transform_operations(double sums, double length) {
  return sums * std::min(2 * length, 2.5 * std::log2(length));
}

// Whether a value is one of 16-bit floats, or such a one as float32.
bool holds_half(const Graph& graph, NodeId id) {
  for (const Node* node = &graph.node(id);; node = &graph.node(node->operands[0])) {
    if (common::is_half(node->dtype)) return true;
    if (node->op != Op::kView && node->op != Op::kCast) return false;
  }
}

void add_operations(const Graph& graph, const std::vector<int64_t>& sizes, ModelWork& work) {
  std::vector<char> depends = depends_on_inputs(graph);
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kFourier) {
      auto length = static_cast<double>(graph.node(node.operands[0]).shape.back().constant());
      work.operations += transform_operations(common::count_elements(node.shape, sizes), length) *
                         static_cast<double>(node.operands.size());
    }
    if (node.op != Op::kReduce ||
        common::attr<common::ReduceAttr>(node).op != common::ReduceOp::kSum) {
      continue;
    }
    const Node& summed = graph.node(node.operands[0]);
    double terms = common::count_elements(summed.shape, sizes);
    bool is_product = summed.op == Op::kBinary &&
                      common::attr<common::BinaryAttr>(summed).op == common::BinaryOp::kMul;
    if (!is_product) {
      work.operations += terms;
      continue;
    }
    double sums = common::count_elements(node.shape, sizes);
    bool is_transform = std::any_of(summed.operands.begin(), summed.operands.end(),
                                    [&](NodeId operand) { return depends[at(operand)] == 0; });
    double length = sums > 0 ? terms / sums : 0;
    double added = is_transform && length > 1 ? transform_operations(sums, length) : 2 * terms;
    work.operations += added;
    bool is_half = std::all_of(summed.operands.begin(), summed.operands.end(),
                               [&](NodeId operand) { return holds_half(graph, operand); });
    if (is_half) work.half_operations += added;
  }
}

double bytes_of(const Graph& graph, const std::vector<int64_t>& sizes) {
  // By node: the input that it shows as it is, or under another type; -1 for none.
  std::vector<int> shown(graph.nodes.size(), -1);
  std::vector<double> read(graph.inputs.size(), 0);
  auto all_of = [&](int input) {
    const common::GraphInput& declared = graph.inputs[at(input)];
    return common::count_bytes(declared.dtype, declared.shape, sizes);
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op == Op::kInput) {
      shown[n] = common::attr<common::InputAttr>(node).position;
      continue;
    }
    if (node.op == Op::kView || node.op == Op::kCast) {
      shown[n] = shown[at(node.operands[0])];
      continue;
    }
    for (size_t k = 0; k < node.operands.size(); ++k) {
      int input = shown[at(node.operands[k])];
      if (input < 0) continue;
      bool is_gathered = node.op == Op::kGather && k == 0;
      read[at(input)] += is_gathered
                             ? common::count_bytes(graph.inputs[at(input)].dtype, node.shape, sizes)
                             : all_of(input);
    }
  }
  double bytes = 0;
  for (const common::GraphOutput& output : graph.outputs) {
    const Node& node = graph.node(output.node);
    if (shown[at(output.node)] >= 0)
      read[at(shown[at(output.node)])] += all_of(shown[at(output.node)]);
    if (output.kind == common::OutputKind::kUser) {
      bytes += common::count_bytes(node.dtype, node.shape, sizes);
    }
  }
  for (size_t i = 0; i < read.size(); ++i) bytes += std::min(read[i], all_of(static_cast<int>(i)));
  return bytes;
}

}  // namespace

ModelWork work_of(const Graph& graph, const std::vector<int64_t>& sizes) {
  ModelWork work;
  add_operations(graph, sizes, work);
  work.bytes = bytes_of(graph, sizes);
  return work;
}

double least_ns(const ModelWork& work, const Roofline& roofline) {
  double peak = roofline.operations_per_s;
  double half_peak = roofline.half_operations_per_s > 0 ? roofline.half_operations_per_s : peak;
  double rate = read_bandwidth(roofline, work.bytes);
  double operations_ns = 0;
  if (peak > 0) operations_ns += (work.operations - work.half_operations) / peak * 1e9;
  if (half_peak > 0) operations_ns += work.half_operations / half_peak * 1e9;
  return std::max(operations_ns, rate > 0 ? work.bytes / rate * 1e9 : 0);
}

}  // namespace clients
