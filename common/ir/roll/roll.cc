#include "common/ir/roll/roll.h"

#include <unordered_map>

#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/roll/roll_fold.h"
#include "common/ir/roll/roll_search.h"

namespace common {

Graph roll(const Graph& graph) {
  Graph current = without_dead_nodes(graph);
  while (auto chain = best_chain(current)) current = fold(current, *chain);
  return current;
}

namespace {

// Copies `graph` into the builder with its inputs bound to `inputs`; returns the outputs' nodes.
std::vector<NodeId> inline_graph(const Graph& graph, const std::vector<NodeId>& inputs,
                                 GraphBuilder& builder) {
  std::vector<NodeId> renamed(graph.nodes.size(), -1);
  std::unordered_map<NodeId, std::vector<NodeId>> loop_results;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == Op::kInput) {
      renamed[i] = inputs[at(attr<InputAttr>(node).position)];
    } else if (node.op == Op::kLoopResult) {
      renamed[i] = loop_results.at(node.operands[0])[at(attr<LoopResultAttr>(node).result)];
    } else if (node.op == Op::kLoop) {
      const auto& loop = attr<LoopAttr>(node);
      auto operand = [&](size_t k) { return renamed[at(node.operands[k])]; };
      auto trips = static_cast<size_t>(loop.trip_count);
      size_t fixed = at(loop.carried + loop.invariant);
      std::vector<NodeId> body_inputs(fixed + at(loop.per_iteration));
      for (size_t k = 0; k < fixed; ++k) body_inputs[k] = operand(k);
      std::vector<NodeId> results(at(loop.carried) + at(loop.outputs) * trips);
      for (size_t t = 0; t < trips; ++t) {
        for (size_t p = 0; p < at(loop.per_iteration); ++p) {
          body_inputs[fixed + p] = operand(fixed + p * trips + t);
        }
        std::vector<NodeId> outputs = inline_graph(*loop.body, body_inputs, builder);
        for (size_t c = 0; c < at(loop.carried); ++c) body_inputs[c] = results[c] = outputs[c];
        for (size_t q = 0; q < at(loop.outputs); ++q) {
          results[at(loop.carried) + q * trips + t] = outputs[at(loop.carried) + q];
        }
      }
      loop_results[static_cast<NodeId>(i)] = std::move(results);
    } else {
      Node copy = node;
      for (NodeId& operand : copy.operands) operand = renamed[at(operand)];
      renamed[i] = builder.raw(std::move(copy));
    }
  }
  std::vector<NodeId> outputs;
  for (const GraphOutput& output : graph.outputs) outputs.push_back(renamed[at(output.node)]);
  return outputs;
}

}  // namespace

Graph unroll(const Graph& graph) {
  GraphBuilder builder(graph.symbols);
  std::vector<NodeId> inputs = builder.inputs_like(graph);
  std::vector<NodeId> outputs = inline_graph(graph, inputs, builder);
  for (size_t k = 0; k < outputs.size(); ++k) {
    builder.output_like(graph.outputs[k], outputs[k]);
  }
  return builder.finish();
}

}  // namespace common
