#include "coordinator/search/partition/regions.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/text.h"
#include "common/ir/llir/load_time.h"

namespace coordinator {
namespace {

using common::at;
using common::Graph;
using common::GraphBuilder;
using common::Node;
using common::NodeId;
using common::Op;

// Which values depend on weights alone, loops included.
struct LoadTimeFlow {
  std::vector<char> flags;                          // per node
  std::map<NodeId, std::vector<char>> body_inputs;  // of each loop: whether in every trip
};

LoadTimeFlow load_time_flow(const Graph& graph, const std::vector<char>& inputs);

// A loop's results, given its operands: a carried value is one if it is at first and stays one.
std::vector<char> loop_results(const common::LoopAttr& loop, const std::vector<char>& operands,
                               std::vector<char>& body_inputs) {
  auto is_one = [&](int64_t operand) { return operands[static_cast<size_t>(operand)]; };
  int fixed = loop.carried + loop.invariant;
  for (int k = 0; k < fixed; ++k) body_inputs.push_back(is_one(k));
  for (int p = 0; p < loop.per_iteration; ++p) {
    char all = 1;
    for (int64_t t = 0; t < loop.trip_count; ++t) all &= is_one(fixed + p * loop.trip_count + t);
    body_inputs.push_back(all);
  }
  std::vector<char> outputs;
  for (bool changed = true; changed;) {
    changed = false;
    outputs.clear();
    LoadTimeFlow body = load_time_flow(*loop.body, body_inputs);
    for (const auto& output : loop.body->outputs) outputs.push_back(body.flags[at(output.node)]);
    for (int k = 0; k < loop.carried; ++k) {
      changed = changed || (body_inputs[at(k)] && !outputs[at(k)]);
      body_inputs[at(k)] &= outputs[at(k)];
    }
  }
  std::vector<char> results(outputs.begin(), outputs.begin() + loop.carried);
  for (int q = 0; q < loop.outputs; ++q) {
    results.insert(results.end(), static_cast<size_t>(loop.trip_count),
                   outputs[at(loop.carried + q)]);
  }
  return results;
}

LoadTimeFlow load_time_flow(const Graph& graph, const std::vector<char>& inputs) {
  LoadTimeFlow flow;
  std::map<NodeId, std::vector<char>> results;  // of loops
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    auto id = static_cast<NodeId>(i);
    std::vector<char> operands;
    for (NodeId operand : node.operands) operands.push_back(flow.flags[at(operand)]);
    char flag = 0;
    if (node.op == Op::kLoop) {
      results[id] =
          loop_results(common::attr<common::LoopAttr>(node), operands, flow.body_inputs[id]);
    } else if (node.op == Op::kLoopResult) {
      auto result = static_cast<size_t>(common::attr<common::LoopResultAttr>(node).result);
      flag = results.at(node.operands[0])[result] && !common::needs_symbols(node);
    } else if (node.op == Op::kInput) {
      flag = inputs[at(common::attr<common::InputAttr>(node).position)];
    } else {
      flag = common::keeps_load_time(node, graph.inputs) &&
             std::count(operands.begin(), operands.end(), 0) == 0;
    }
    flow.flags.push_back(flag);
  }
  return flow;
}

std::vector<char> weight_inputs(const Graph& graph) {
  std::vector<char> flags;
  for (const common::GraphInput& input : graph.inputs) {
    bool has_sizes = std::all_of(input.shape.begin(), input.shape.end(),
                                 [](const common::Expr& size) { return size.is_constant(); });
    flags.push_back(input.kind == common::InputKind::kWeight && has_sizes);
  }
  return flags;
}

// An input that nothing reads has no node, but may be what shows a size.
Graph with_input_nodes(Graph graph) {
  std::vector<char> has_node(graph.inputs.size(), 0);
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kInput) has_node[at(common::attr<common::InputAttr>(node).position)] = 1;
  }
  for (size_t i = 0; i < has_node.size(); ++i) {
    if (has_node[i]) continue;
    const common::GraphInput& input = graph.inputs[i];
    graph.nodes.push_back(
        {Op::kInput, input.dtype, input.shape, {}, common::InputAttr{static_cast<int>(i)}});
  }
  return graph;
}

class Cutter {
 public:
  explicit Cutter(Cut& cut) : cut_(cut) {}

  // `inputs`: which inputs depend on weights alone.
  CutGraph cut(const Graph& whole, const std::vector<char>& inputs, int64_t executions) {
    CutGraph result;
    result.graph = with_input_nodes(whole);
    const Graph& graph = result.graph;
    Scope scope(graph, load_time_flow(graph, inputs));
    for (int level = 0; level <= scope.max_level; ++level) {
      add_segment(scope, level, true, 0, result);
      add_segment(scope, level, false, executions, result);
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        if (node.op != Op::kLoop || scope.level[i] != level) continue;
        const auto& loop = common::attr<common::LoopAttr>(node);
        auto id = static_cast<NodeId>(i);
        auto body = std::make_shared<CutGraph>(
            cut(*loop.body, scope.flow.body_inputs.at(id), executions * loop.trip_count));
        result.steps.emplace_back(LoopStep{id, std::move(body)});
      }
    }
    return result;
  }

 private:
  // What is known of one graph: a node's level is the number of loops that must have run before it.
  struct Scope {
    Scope(const Graph& g, LoadTimeFlow f) : graph(g), flow(std::move(f)) {
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
        if (is_read_through(static_cast<NodeId>(i))) continue;
        for (NodeId operand : node.operands) {
          if (node.op == Op::kLoop) {
            stored[at(operand)] = 1;
          } else if (NodeId base = base_of(operand); level[at(base)] != level[i]) {
            if (!is_free(base)) stored[at(base)] = 1;
          }
        }
      }
      for (const auto& output : g.outputs) stored[at(output.node)] = 1;
      // What a run writes is no longer made once.
      made_once.assign(g.nodes.size(), 0);
      for (size_t i = 0; i < g.nodes.size(); ++i) made_once[i] = stored[i] && flow.flags[i];
      for (const auto& output : g.outputs) made_once[at(output.node)] = 0;
    }
    NodeId base_of(NodeId id) const {
      while (is_read_through(id)) id = graph.node(id).operands[0];
      return id;
    }
    // Is made again where it is needed: movement, and the wider spelling of a shorter type, which
    // takes more to read than to make and hides from contractions what their operands are.
    bool is_read_through(NodeId id) const {
      const Node& node = graph.node(id);
      if (node.op == Op::kView) return true;
      if (node.op != Op::kCast) return false;
      common::DType from = graph.node(node.operands[0]).dtype;
      return common::is_half(from) && common::is_float(node.dtype) && !common::is_half(node.dtype);
    }
    // Takes less to make than to read; and a kernel that makes what positions tell knows in which
    // of its loops it changes.
    bool is_free(NodeId id) const {
      const Node& node = graph.node(id);
      if (node.op == Op::kConstant || node.op == Op::kIota) return true;
      return node.op == Op::kBinary &&
             common::is_comparison(common::attr<common::BinaryAttr>(node).op) &&
             std::all_of(node.operands.begin(), node.operands.end(),
                         [&](NodeId operand) { return is_free(base_of(operand)); });
    }
    // Values that exist as tensors before any segment of their level runs.
    bool is_given(NodeId id) const {
      Op op = graph.node(id).op;
      return op == Op::kInput || op == Op::kLoopResult;
    }
    const Graph& graph;
    LoadTimeFlow flow;
    std::vector<int> level;
    std::vector<char> stored;
    std::vector<char> made_once;  // stored, and a region's of its own kind
    int max_level = 0;
  };

  void add_segment(const Scope& scope, int level, bool once, int64_t executions, CutGraph& result) {
    const Graph& graph = scope.graph;
    SegmentStep step;
    GraphBuilder builder(graph.symbols);
    std::map<NodeId, NodeId> copied;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      auto id = static_cast<NodeId>(i);
      if (!scope.stored[i] || scope.level[i] != level || scope.is_given(id) ||
          graph.nodes[i].op == Op::kLoop || (scope.made_once[i] != 0) != once) {
        continue;
      }
      builder.output(copy(scope, level, id, once, builder, copied, step));
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
  NodeId copy(const Scope& scope, int level, NodeId root, bool once, GraphBuilder& builder,
              std::map<NodeId, NodeId>& copied, SegmentStep& step) {
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      NodeId id = stack.back();
      if (copied.count(id) != 0) {
        stack.pop_back();
        continue;
      }
      const Node& node = scope.graph.node(id);
      bool outside =
          scope.is_given(id) ||
          (scope.level[at(id)] != level && !scope.is_read_through(id) && !scope.is_free(id)) ||
          (scope.made_once[at(id)] && !once && !scope.is_free(id));
      if (outside) {
        bool weight = scope.flow.flags[at(id)];
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
  cut.whole = Cutter(cut).cut(rolled, weight_inputs(rolled), 1);
  return cut;
}

}  // namespace coordinator
