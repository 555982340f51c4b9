#include "common/ir/llir/load_time.h"

#include <algorithm>

#include "common/ir/expr/index.h"

namespace common {
namespace {

bool is_symbolic(const Expr& e) {
  bool found = false;
  e.visit_vars([&](Var v) { found = found || v.kind == Var::Kind::kSymbol; });
  return found;
}

bool is_symbolic(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& e) { return is_symbolic(e); });
}

}  // namespace

std::vector<char> load_time_calls(const std::vector<GraphInput>& inputs,
                                  const std::vector<GraphOutput>& outputs,
                                  const std::vector<Buffer>& buffers,
                                  const std::vector<Call>& calls) {
  std::vector<char> known(buffers.size(), 0);
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Buffer& buffer = buffers[b];
    if (buffer.kind != BufferKind::kInput) continue;
    known[b] = inputs[at(buffer.position)].kind == InputKind::kWeight &&
               !is_symbolic(buffer.shape) &&
               std::none_of(outputs.begin(), outputs.end(), [&](const GraphOutput& output) {
                 return output.kind == OutputKind::kMutate && output.input == buffer.position;
               });
  }
  std::vector<char> flags;
  for (const Call& call : calls) {
    bool at_load =
        !is_symbolic(call.symbols) &&
        std::all_of(call.inputs.begin(), call.inputs.end(), [&](int b) { return known[at(b)]; }) &&
        std::all_of(call.outputs.begin(), call.outputs.end(), [&](int b) {
          return buffers[at(b)].kind == BufferKind::kTemporary &&
                 !is_symbolic(buffers[at(b)].shape);
        });
    if (at_load) {
      for (int b : call.outputs) known[at(b)] = 1;
    }
    flags.push_back(at_load);
  }
  return flags;
}

bool needs_symbols(const Node& node) {
  if (is_symbolic(node.shape)) return true;
  auto in_coordinates = [](const std::vector<Coordinate>& coordinates) {
    return std::any_of(coordinates.begin(), coordinates.end(),
                       [](const Coordinate& c) { return is_symbolic(c.expr); });
  };
  if (node.op == Op::kView) {
    const View& view = attr<ViewAttr>(node).view;
    return is_symbolic(view.index) ||
           std::any_of(view.valid.begin(), view.valid.end(), [](const Validity& v) {
             return is_symbolic(v.value) || is_symbolic(v.bound);
           });
  }
  if (node.op == Op::kGather) return in_coordinates(attr<GatherAttr>(node).coordinates);
  return node.op == Op::kScatter && in_coordinates(attr<ScatterAttr>(node).coordinates);
}

bool keeps_load_time(const Node& node, const std::vector<GraphInput>& inputs) {
  if (node.op == Op::kLoop || node.op == Op::kLoopResult || needs_symbols(node)) return false;
  return node.op != Op::kInput ||
         inputs[at(attr<InputAttr>(node).position)].kind == InputKind::kWeight;
}

std::vector<char> load_time_nodes(const Graph& graph) {
  std::vector<char> flags;
  for (const Node& node : graph.nodes) {
    flags.push_back(keeps_load_time(node, graph.inputs) &&
                    std::all_of(node.operands.begin(), node.operands.end(),
                                [&](NodeId operand) { return flags[at(operand)]; }));
  }
  return flags;
}

}  // namespace common
