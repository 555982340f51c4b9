#include "coordinator/search/regions.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/ir/builder.h"
#include "common/ir/text.h"

namespace coordinator {
namespace {

using common::Graph;
using common::GraphBuilder;
using common::Node;
using common::NodeId;
using common::Op;

size_t at(NodeId id) { return static_cast<size_t>(id); }

class Cutter {
 public:
  explicit Cutter(Cut& cut) : cut_(cut) {}

  CutGraph cut(const Graph& graph, int64_t executions) {
    CutGraph result;
    result.graph = graph;
    Scope scope(graph);
    for (int level = 0; level <= scope.max_level; ++level) {
      add_segment(scope, level, executions, result);
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        if (node.op != Op::kLoop || scope.level[i] != level) continue;
        const auto& loop = common::attr<common::LoopAttr>(node);
        auto body = std::make_shared<CutGraph>(cut(*loop.body, executions * loop.trip_count));
        result.steps.emplace_back(LoopStep{static_cast<NodeId>(i), std::move(body)});
      }
    }
    return result;
  }

 private:
  // What is known of one graph: a node's level is the number of loops that must have run before it.
  struct Scope {
    explicit Scope(const Graph& g) : graph(g) {
      level.assign(g.nodes.size(), 0);
      stored.assign(g.nodes.size(), 0);
      for (size_t i = 0; i < g.nodes.size(); ++i) {
        const Node& node = g.nodes[i];
        for (NodeId operand : node.operands) level[i] = std::max(level[i], level[at(operand)]);
        if (node.op == Op::kLoopResult) ++level[i];
        max_level = std::max(max_level, level[i]);
      }
      // Loops read stored tensors; so do later segments, seen through views.
      for (size_t i = 0; i < g.nodes.size(); ++i) {
        const Node& node = g.nodes[i];
        if (node.op == Op::kView) continue;
        for (NodeId operand : node.operands) {
          if (node.op == Op::kLoop) {
            stored[at(operand)] = 1;
          } else if (NodeId base = base_of(operand); level[at(base)] != level[i]) {
            if (!is_free(base)) stored[at(base)] = 1;
          }
        }
      }
      for (const auto& output : g.outputs) {
        stored[at(output.node)] = 1;
        NodeId base = base_of(output.node);
        if (base != output.node && level[at(base)] != level[at(output.node)]) stored[at(base)] = 1;
      }
    }
    NodeId base_of(NodeId id) const {
      while (graph.node(id).op == Op::kView) id = graph.node(id).operands[0];
      return id;
    }
    bool is_free(NodeId id) const {
      Op op = graph.node(id).op;
      return op == Op::kConstant || op == Op::kIota;
    }
    // Values that exist as tensors before any segment of their level runs.
    bool is_given(NodeId id) const {
      Op op = graph.node(id).op;
      return op == Op::kInput || op == Op::kLoopResult;
    }
    const Graph& graph;
    std::vector<int> level;
    std::vector<char> stored;
    int max_level = 0;
  };

  void add_segment(const Scope& scope, int level, int64_t executions, CutGraph& result) {
    const Graph& graph = scope.graph;
    SegmentStep step;
    GraphBuilder builder(graph.symbols);
    std::map<NodeId, NodeId> copied;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      auto id = static_cast<NodeId>(i);
      if (!scope.stored[i] || scope.level[i] != level || scope.is_given(id) ||
          graph.nodes[i].op == Op::kLoop) {
        continue;
      }
      builder.output(copy(scope, level, id, builder, copied, step));
      step.outputs.push_back(id);
    }
    if (step.outputs.empty()) return;
    Graph region = builder.finish();
    add_witnesses(graph, region, step);
    step.region = intern(std::move(region), executions);
    result.steps.emplace_back(std::move(step));
  }

  // Inputs that show the sizes which the region's other inputs hide.
  static void add_witnesses(const Graph& graph, Graph& region, SegmentStep& step) {
    for (int symbol : common::hidden_symbols(region)) {
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        if (node.op != Op::kInput || !common::shows_symbol(node.shape, symbol)) continue;
        region.inputs.push_back({common::InputKind::kUser, node.dtype, node.shape, ""});
        step.inputs.push_back(static_cast<NodeId>(i));
        break;
      }
    }
  }

  // Copies what a value needs from its own level; what other levels made becomes a region input.
  NodeId copy(const Scope& scope, int level, NodeId root, GraphBuilder& builder,
              std::map<NodeId, NodeId>& copied, SegmentStep& step) {
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      NodeId id = stack.back();
      if (copied.count(id) != 0) {
        stack.pop_back();
        continue;
      }
      const Node& node = scope.graph.node(id);
      bool outside = scope.is_given(id) ||
                     (scope.level[at(id)] != level && node.op != Op::kView && !scope.is_free(id));
      if (outside) {
        bool weight = node.op == Op::kInput &&
                      scope.graph.inputs[at(common::attr<common::InputAttr>(node).position)].kind ==
                          common::InputKind::kWeight;
        copied[id] = builder.input(weight ? common::InputKind::kWeight : common::InputKind::kUser,
                                   node.dtype, node.shape, "");
        step.inputs.push_back(id);
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (size_t k = node.operands.size(); k-- > 0;) {
        if (copied.count(node.operands[k]) == 0) {
          stack.push_back(node.operands[k]);
          ready = false;
        }
      }
      if (!ready) continue;
      Node twin = node;
      for (NodeId& operand : twin.operands) operand = copied.at(operand);
      copied[id] = builder.raw(std::move(twin));
      stack.pop_back();
    }
    return copied.at(root);
  }

  int intern(Graph graph, int64_t executions) {
    auto [it, is_new] = known_.emplace(common::print(graph), static_cast<int>(cut_.regions.size()));
    if (is_new) {
      cut_.regions.push_back({std::move(graph)});
      cut_.executions.push_back(0);
    }
    cut_.executions[static_cast<size_t>(it->second)] += executions;
    return it->second;
  }

  Cut& cut_;
  std::map<std::string, int> known_;
};

}  // namespace

Cut cut_into_regions(const common::Graph& rolled) {
  Cut cut;
  cut.whole = Cutter(cut).cut(rolled, 1);
  return cut;
}

}  // namespace coordinator
