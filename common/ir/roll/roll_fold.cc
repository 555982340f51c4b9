#include "common/ir/roll/roll_fold.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "common/base/hash64.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/roll/roll.h"

namespace common {
namespace {

struct TupleHash {
  size_t operator()(const Tuple& tuple) const {
    return hash64(std::as_bytes(std::span<const NodeId>(tuple)));
  }
};

// Rewrites the graph with the chain's blocks replaced by one loop.
class Folder {
 public:
  Folder(const Graph& graph, const Chain& chain)
      : graph_(graph),
        chain_(chain),
        sizes_(representative_sizes(graph.symbols)),
        in_block_(graph.nodes.size(), 0) {
    for (const Tuple& place : chain.interior) {
      for (NodeId id : place) in_block_[at(id)] = 1;
    }
    for (NodeId id : chain.hoisted) in_block_[at(id)] = 0;
  }

  Graph run() {
    find_side_outputs();
    build_body();
    return rebuild();
  }

 private:
  static NodeId raw_copy(GraphBuilder& builder, const Node& node,
                         const std::unordered_map<NodeId, NodeId>& renamed) {
    Node copy = node;
    for (NodeId& operand : copy.operands) operand = renamed.at(operand);
    return builder.raw(std::move(copy));
  }

  // Places whose value is read outside the blocks.
  void find_side_outputs() {
    std::vector<char> exposed(graph_.nodes.size(), 0);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (NodeId operand : graph_.nodes[i].operands) {
        if (!in_block_[i] && in_block_[at(operand)]) exposed[at(operand)] = 1;
      }
    }
    for (const GraphOutput& output : graph_.outputs) {
      if (in_block_[at(output.node)]) exposed[at(output.node)] = 1;
    }
    leave_repeating_views(exposed);
    // The last block's are the loop's carried results.
    for (const CarriedValue& value : chain_.carried) exposed[at(value.place.back())] = 0;
    for (const Tuple& place : chain_.interior) {
      bool wanted = std::ranges::any_of(place, [&](NodeId id) { return exposed[at(id)] != 0; });
      if (wanted) side_outputs_.push_back(place);
    }
  }

  // A view that is larger than what it reads, such as a convolution's windows, would be stored in
  // its own size. It is made of the loop's results instead, where it is read.
  void leave_repeating_views(std::vector<char>& exposed) {
    for (auto place = chain_.interior.rbegin(); place != chain_.interior.rend(); ++place) {
      if (graph_.node(place->front()).op != Op::kView) continue;
      for (NodeId id : *place) {
        NodeId source = graph_.node(id).operands[0];
        if (!exposed[at(id)] || elements_of(id) <= elements_of(source)) continue;
        exposed[at(id)] = 0;
        in_block_[at(id)] = 0;
        if (in_block_[at(source)]) exposed[at(source)] = 1;
      }
    }
  }

  double elements_of(NodeId id) const { return count_elements(graph_.node(id).shape, sizes_); }

  // Invariants that show the sizes which the body's other inputs hide. They go behind the other
  // invariants, so the inputs after them move on.
  void add_witnesses(Graph& body) {
    for (int symbol : hidden_symbols(body)) {
      for (size_t i = 0; i < graph_.nodes.size(); ++i) {
        const Node& node = graph_.nodes[i];
        if (node.op != Op::kInput || !shows_symbol(node.shape, symbol)) continue;
        size_t place = chain_.carried.size() + chain_.shared.size() + witnesses_.size();
        body.inputs.insert(body.inputs.begin() + static_cast<std::ptrdiff_t>(place),
                           {InputKind::kUser, node.dtype, node.shape, "witness"});
        for (Node& inner : body.nodes) {
          if (inner.op != Op::kInput) continue;
          auto& position = std::get<InputAttr>(inner.attr).position;
          if (static_cast<size_t>(position) >= place) ++position;
        }
        witnesses_.push_back(static_cast<NodeId>(i));
        break;
      }
    }
  }

  void build_body() {
    GraphBuilder body(graph_.symbols);
    std::unordered_map<NodeId, NodeId> outside;  // invariants and copies
    std::unordered_map<Tuple, NodeId, TupleHash> places;
    auto declare = [&](const Node& like, bool weight, const std::string& name) {
      return body.input(weight ? InputKind::kWeight : InputKind::kUser, like.dtype, like.shape,
                        name);
    };
    auto is_weight = [&](NodeId id) {
      const Node& node = graph_.node(id);
      return node.op == Op::kInput &&
             graph_.inputs[at(attr<InputAttr>(node).position)].kind == InputKind::kWeight;
    };
    for (const CarriedValue& value : chain_.carried) {
      Tuple read = value.place;
      read.insert(read.begin(), value.initial);
      read.pop_back();
      places[read] = declare(graph_.node(value.initial), false, "carried");
    }
    size_t blocks = chain_.blocks;
    for (NodeId id : chain_.shared) {
      outside[id] = declare(graph_.node(id), is_weight(id), "invariant");
      places[Tuple(blocks, id)] = outside[id];
    }
    for (const Tuple& tuple : chain_.varying) {
      bool weight = std::all_of(tuple.begin(), tuple.end(), is_weight);
      places[tuple] = declare(graph_.node(tuple[0]), weight, "iteration");
    }
    for (NodeId id : chain_.copied) {
      outside[id] = raw_copy(body, graph_.node(id), outside);
      places[Tuple(blocks, id)] = outside[id];
    }
    for (const Tuple& place : chain_.interior) {
      Node copy = graph_.node(place[0]);
      for (size_t o = 0; o < copy.operands.size(); ++o) {
        Tuple operands;
        for (NodeId id : place) operands.push_back(graph_.node(id).operands[o]);
        copy.operands[o] = places.at(operands);
      }
      places[place] = body.raw(std::move(copy));
    }
    for (const CarriedValue& value : chain_.carried) body.output(places.at(value.place));
    for (const Tuple& place : side_outputs_) body.output(places.at(place));
    Graph finished = body.finish();
    add_witnesses(finished);
    loop_.body = std::make_shared<const Graph>(roll(finished));
    loop_.trip_count = static_cast<int64_t>(blocks);
    loop_.carried = static_cast<int>(chain_.carried.size());
    loop_.invariant = static_cast<int>(chain_.shared.size() + witnesses_.size());
    loop_.per_iteration = static_cast<int>(chain_.varying.size());
    loop_.outputs = static_cast<int>(side_outputs_.size());

    for (const CarriedValue& value : chain_.carried) operands_.push_back(value.initial);
    operands_.insert(operands_.end(), chain_.shared.begin(), chain_.shared.end());
    operands_.insert(operands_.end(), witnesses_.begin(), witnesses_.end());
    for (const Tuple& tuple : chain_.varying) {
      operands_.insert(operands_.end(), tuple.begin(), tuple.end());
    }
  }

  // The loop's operands precede every block node, but other nodes may stand between them: order by
  // dependency, with all blocks treated as one node.
  Graph rebuild() {
    GraphBuilder builder(graph_.symbols);
    std::unordered_map<NodeId, NodeId> renamed;
    input_nodes_ = builder.inputs_like(graph_);
    for (const GraphOutput& output : graph_.outputs) emit(output.node, builder, renamed);
    for (const GraphOutput& output : graph_.outputs) {
      builder.output_like(output, renamed.at(output.node));
    }
    return builder.finish();
  }

  void emit(NodeId root, GraphBuilder& builder, std::unordered_map<NodeId, NodeId>& renamed) {
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      NodeId id = stack.back();
      if (renamed.count(id) != 0) {
        stack.pop_back();
        continue;
      }
      const Node& node = graph_.node(id);
      bool in_block = in_block_[at(id)] != 0;
      const std::vector<NodeId>& needs = in_block ? operands_ : node.operands;
      bool ready = true;
      for (size_t k = needs.size(); k-- > 0;) {
        if (renamed.count(needs[k]) == 0) {
          stack.push_back(needs[k]);
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      if (in_block) {
        emit_loop(builder, renamed);
      } else if (node.op == Op::kInput) {
        renamed[id] = input_nodes_[at(attr<InputAttr>(node).position)];
      } else {
        renamed[id] = raw_copy(builder, node, renamed);
      }
    }
  }

  void emit_loop(GraphBuilder& builder, std::unordered_map<NodeId, NodeId>& renamed) {
    Node loop{Op::kLoop, graph_.node(chain_.carried[0].initial).dtype, {}, {}, loop_};
    for (NodeId id : operands_) loop.operands.push_back(renamed.at(id));
    NodeId node = builder.raw(std::move(loop));
    int64_t results = 0;
    // What was hoisted keeps its name.
    auto name_result = [&](NodeId id) {
      renamed.emplace(
          id, builder.raw(
                  {Op::kLoopResult, {}, {}, {node}, LoopResultAttr{static_cast<int>(results)}}));
      ++results;
    };
    for (const CarriedValue& value : chain_.carried) name_result(value.place.back());
    for (const Tuple& place : side_outputs_) std::ranges::for_each(place, name_result);
    // Interior nodes that nothing outside reads need no name, but mark them as done.
    for (const Tuple& place : chain_.interior) {
      for (NodeId id : place) {
        if (in_block_[at(id)]) renamed.emplace(id, node);
      }
    }
  }

  const Graph& graph_;
  const Chain& chain_;
  const std::vector<int64_t> sizes_;  // that symbols count as
  std::vector<char> in_block_;        // by node; not what is computed outside as well
  std::vector<Tuple> side_outputs_;
  LoopAttr loop_;
  std::vector<NodeId> witnesses_;
  std::vector<NodeId> operands_;  // of the loop, in this graph
  std::vector<NodeId> input_nodes_;
};

}  // namespace

Graph fold(const Graph& graph, const Chain& chain) { return Folder(graph, chain).run(); }

}  // namespace common
