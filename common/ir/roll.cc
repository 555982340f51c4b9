#include "common/ir/roll.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "common/base/hash64.h"
#include "common/ir/builder.h"
#include "common/ir/text.h"

namespace common {
namespace {

// A chain must save at least this many nodes to be worth a loop.
constexpr size_t kMinSavedNodes = 6;
constexpr int kColourRounds = 6;
// Bounds on the work for graphs without structure.
constexpr size_t kMaxAnchorClasses = 2048;
constexpr size_t kMaxPairs = 50'000;
constexpr size_t kMaxPairsPerNode = 64;

size_t at(NodeId id) { return static_cast<size_t>(id); }

// Nodes that cost nothing and mean the same wherever they stand.
bool is_free(const Graph& graph, NodeId id) {
  const Node* node = &graph.node(id);
  while (node->op == Op::kView) node = &graph.node(node->operands[0]);
  return node->op == Op::kConstant || node->op == Op::kIota;
}

uint64_t local_colour(const Node& node) {
  if (node.op == Op::kInput)
    return hash64(std::string(dtype_name(node.dtype)) + shape_text(node.shape));
  return hash64(describe(node));
}

using Tuple = std::vector<NodeId>;  // the nodes at one place of the block, one per iteration

struct TupleHash {
  size_t operator()(const Tuple& tuple) const {
    return hash64(std::as_bytes(std::span<const NodeId>(tuple)));
  }
};

// A chain of isomorphic blocks, found by walking back from all anchors in lock step.
struct Chain {
  Tuple anchors;                // the blocks' results, in order
  NodeId initial = -1;          // what the first block reads where others read an anchor
  std::vector<Tuple> interior;  // places inside the block, operands before users
  std::vector<Tuple> varying;   // per-iteration operands
  std::vector<NodeId> shared;   // invariants
  std::vector<NodeId> copied;   // free nodes copied into the body, operands before users
  size_t saved() const { return interior.size() * (anchors.size() - 1); }
};

class ChainFinder {
 public:
  ChainFinder(const Graph& graph, Tuple anchors) : graph_(graph) {
    chain_.anchors = std::move(anchors);
  }

  std::optional<Chain> run() {
    mark_before();
    if (!walk(chain_.anchors) || chain_.initial < 0) return std::nullopt;
    if (chain_.saved() < kMinSavedNodes) return std::nullopt;
    if (!operands_precede_blocks()) return std::nullopt;
    return std::move(chain_);
  }

 private:
  enum class Role { kCarried, kShared, kVarying, kInterior, kMismatch };

  Role role(const Tuple& tuple) const {
    bool is_carried = true;
    for (size_t k = 1; k < tuple.size(); ++k) {
      is_carried = is_carried && tuple[k] == chain_.anchors[k - 1];
    }
    if (is_carried && tuple != chain_.anchors) {
      const Node& first = graph_.node(tuple[0]);
      const Node& anchor = graph_.node(chain_.anchors[0]);
      bool fits = first.dtype == anchor.dtype && first.shape == anchor.shape &&
                  (chain_.initial < 0 || chain_.initial == tuple[0]);
      return fits ? Role::kCarried : Role::kMismatch;
    }
    bool all_equal =
        std::all_of(tuple.begin(), tuple.end(), [&](NodeId id) { return id == tuple[0]; });
    if (all_equal) return Role::kShared;
    const Node& first = graph_.node(tuple[0]);
    bool same_type = true;
    bool same_operation = first.op != Op::kInput;
    for (NodeId id : tuple) {
      const Node& node = graph_.node(id);
      same_type = same_type && node.dtype == first.dtype && node.shape == first.shape;
      same_operation = same_operation && node.op == first.op && node.attr == first.attr &&
                       node.operands.size() == first.operands.size();
    }
    if (!same_type) return Role::kMismatch;
    if (same_operation && first.op != Op::kLoop && first.op != Op::kLoopResult) {
      // A value that went into the block before goes around the carried one: no such chain.
      return before_[at(tuple.back())] ? Role::kMismatch : Role::kInterior;
    }
    return Role::kVarying;
  }

  // Marks what the last block's carried value is made of.
  void mark_before() {
    before_.assign(graph_.nodes.size(), 0);
    before_[at(chain_.anchors[chain_.anchors.size() - 2])] = 1;
    for (size_t i = at(chain_.anchors[chain_.anchors.size() - 2]) + 1; i-- > 0;) {
      if (!before_[i]) continue;
      for (NodeId operand : graph_.nodes[i].operands) before_[at(operand)] = 1;
    }
  }

  // Classifies the tuple and all it reads; depth first without recursion.
  bool walk(const Tuple& root) {
    std::vector<std::pair<Tuple, size_t>> stack{{root, 0}};
    if (role(root) != Role::kInterior) return false;
    seen_.insert(root);
    while (!stack.empty()) {
      auto& [tuple, next] = stack.back();
      const Node& node = graph_.node(tuple[0]);
      if (next == node.operands.size()) {
        chain_.interior.push_back(tuple);
        if (chain_.interior.size() > graph_.nodes.size() / (tuple.size() - 1) + 1) return false;
        stack.pop_back();
        continue;
      }
      Tuple operands;
      for (NodeId id : tuple) operands.push_back(graph_.node(id).operands[next]);
      ++next;
      if (!seen_.insert(operands).second) continue;
      switch (role(operands)) {
        case Role::kCarried:
          chain_.initial = operands[0];
          break;
        case Role::kShared:
          share(operands[0]);
          break;
        case Role::kVarying:
          chain_.varying.push_back(operands);
          break;
        case Role::kInterior:
          stack.emplace_back(std::move(operands), 0);
          break;
        case Role::kMismatch:
          return false;
      }
    }
    return true;
  }

  // Views and constants are copied into the body: passed in, a broadcast would have to be stored.
  void share(NodeId id) {
    if (!shared_.insert(id).second) return;
    if (graph_.node(id).op == Op::kView || is_free(graph_, id)) {
      for (NodeId operand : graph_.node(id).operands) share(operand);
      chain_.copied.push_back(id);
    } else {
      chain_.shared.push_back(id);
    }
  }

  // What enters the loop must not depend on anything inside it.
  bool operands_precede_blocks() const {
    std::vector<char> tainted(graph_.nodes.size(), 0);
    for (const Tuple& place : chain_.interior) {
      for (NodeId id : place) tainted[at(id)] = 1;
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (NodeId operand : graph_.nodes[i].operands) tainted[i] |= tainted[at(operand)];
    }
    if (tainted[at(chain_.initial)]) return false;
    for (NodeId id : chain_.shared) {
      if (tainted[at(id)]) return false;
    }
    for (const Tuple& tuple : chain_.varying) {
      for (NodeId id : tuple) {
        if (tainted[at(id)]) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  Chain chain_;
  std::vector<char> before_;
  std::unordered_set<Tuple, TupleHash> seen_;
  std::set<NodeId> shared_;
};

bool can_anchor(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.op != Op::kInput && node.op != Op::kLoop && node.op != Op::kLoopResult &&
         node.op != Op::kView && !is_free(graph, id);
}

// The longest chain that ends in these anchors: what the first block starts from may itself be
// the result of one more such block.
std::optional<Chain> extended_chain(const Graph& graph, Tuple anchors) {
  auto chain = ChainFinder(graph, std::move(anchors)).run();
  while (chain && can_anchor(graph, chain->initial)) {
    Tuple longer = chain->anchors;
    longer.insert(longer.begin(), chain->initial);
    auto next = ChainFinder(graph, std::move(longer)).run();
    if (!next) break;
    chain = std::move(next);
  }
  return chain;
}

// Collects candidates and keeps the chain that saves most; ties go to the first.
class ChainSearch {
 public:
  explicit ChainSearch(const Graph& graph) : graph_(graph) {}

  std::optional<Chain> run() {
    std::vector<uint64_t> colour;
    for (const Node& node : graph_.nodes) colour.push_back(local_colour(node));
    classes_of(colour);
    std::map<uint64_t, Tuple> same_operation = std::move(classes_);
    std::vector<uint64_t> operations = std::move(order_);
    // Nodes with alike neighbourhoods are likely to be at the same place of different blocks.
    for (int round = 0; round < kColourRounds; ++round) {
      std::vector<uint64_t> next = colour;
      for (size_t i = 0; i < colour.size(); ++i) {
        for (NodeId operand : graph_.nodes[i].operands) {
          next[i] = combine64(next[i], colour[at(operand)]);
        }
      }
      colour = std::move(next);
      classes_of(colour);
      for (uint64_t c : order_) estimate_class(classes_[c]);
    }
    try_promising();
    // Short chains differ from their start in every neighbourhood: try pairs of equal operations.
    if (!best_) {
      for (uint64_t c : operations) try_pairs(same_operation[c]);
    }
    return std::move(best_);
  }

 private:
  void classes_of(const std::vector<uint64_t>& colour) {
    classes_.clear();
    order_.clear();
    for (size_t i = 0; i < colour.size(); ++i) {
      auto id = static_cast<NodeId>(i);
      if (!can_anchor(graph_, id)) continue;
      Tuple& members = classes_[colour[i]];
      if (members.empty()) order_.push_back(colour[i]);
      members.push_back(id);
    }
  }

  void consider(std::optional<Chain> chain) {
    if (chain && (!best_ || chain->saved() > best_->saved())) best_ = std::move(chain);
  }

  // Two blocks tell what a chain through all members would save, at a fraction of its price.
  void estimate_class(const Tuple& members) {
    if (members.size() < 2 || ++classes_tried_ > kMaxAnchorClasses) return;
    // The last member may stand behind the repeated part.
    for (size_t dropped = 0; dropped < 2 && members.size() >= dropped + 2; ++dropped) {
      auto end = members.end() - static_cast<std::ptrdiff_t>(dropped);
      auto pair = ChainFinder(graph_, Tuple(end - 2, end)).run();
      if (!pair) continue;
      Tuple anchors(members.begin(), end);
      size_t blocks = anchors.size() + kColourRounds;  // extension may find that many more
      promising_.push_back({pair->interior.size() * blocks, std::move(anchors)});
      return;
    }
  }

  void try_promising() {
    std::stable_sort(promising_.begin(), promising_.end(),
                     [](const Promise& a, const Promise& b) { return a.saved_max > b.saved_max; });
    for (Promise& promise : promising_) {
      if (best_ && best_->saved() >= promise.saved_max) break;
      consider(extended_chain(graph_, std::move(promise.anchors)));
      // What extension can add at most is small against what was found.
      if (best_ && best_->saved() + kColourRounds * best_->interior.size() >= promise.saved_max) {
        break;
      }
    }
  }

  void try_pairs(const Tuple& members) {
    for (size_t last = members.size(); last-- > 1;) {
      for (size_t tried = 1; tried <= std::min(last, kMaxPairsPerNode); ++tried) {
        if (++pairs_tried_ > kMaxPairs) return;
        consider(extended_chain(graph_, {members[last - tried], members[last]}));
      }
    }
  }

  struct Promise {
    size_t saved_max;
    Tuple anchors;
  };

  const Graph& graph_;
  std::vector<Promise> promising_;
  std::map<uint64_t, Tuple> classes_;
  std::vector<uint64_t> order_;  // colours by first occurrence
  std::optional<Chain> best_;
  size_t classes_tried_ = 0;
  size_t pairs_tried_ = 0;
};

// Rewrites the graph with the chain's blocks replaced by one loop.
class Folder {
 public:
  Folder(const Graph& graph, const Chain& chain) : graph_(graph), chain_(chain) {
    block_of_.assign(graph.nodes.size(), -1);
    for (const Tuple& place : chain.interior) {
      for (size_t k = 0; k < place.size(); ++k) block_of_[at(place[k])] = static_cast<int>(k);
    }
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

  // Places whose value is read outside their own block by something other than the next block.
  void find_side_outputs() {
    std::vector<char> exposed(graph_.nodes.size(), 0);
    std::set<NodeId> anchors(chain_.anchors.begin(), chain_.anchors.end());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (NodeId operand : graph_.nodes[i].operands) {
        int from = block_of_[at(operand)];
        int to = block_of_[i];
        if (from < 0 || from == to) continue;
        bool carries = anchors.count(operand) != 0 && to == from + 1;
        if (!carries) exposed[at(operand)] = 1;
      }
    }
    for (const GraphOutput& output : graph_.outputs) {
      if (block_of_[at(output.node)] >= 0) exposed[at(output.node)] = 1;
    }
    for (const Tuple& place : chain_.interior) {
      bool wanted = false;
      for (size_t k = 0; k < place.size(); ++k) {
        bool final_carry = k + 1 == place.size() && place[k] == chain_.anchors.back();
        wanted = wanted || (exposed[at(place[k])] && !final_carry);
      }
      if (wanted) side_outputs_.push_back(place);
    }
  }

  // Invariants that show the sizes which the body's other inputs hide. They go behind the other
  // invariants, so the inputs after them move on.
  void add_witnesses(Graph& body) {
    for (int symbol : hidden_symbols(body)) {
      for (size_t i = 0; i < graph_.nodes.size(); ++i) {
        const Node& node = graph_.nodes[i];
        if (node.op != Op::kInput || !shows_symbol(node.shape, symbol)) continue;
        size_t place = 1 + chain_.shared.size() + witnesses_.size();
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
    Tuple carried = chain_.anchors;
    carried.insert(carried.begin(), chain_.initial);
    carried.pop_back();
    places[carried] = declare(graph_.node(chain_.initial), false, "carried");
    size_t blocks = chain_.anchors.size();
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
    body.output(places.at(chain_.anchors));
    for (const Tuple& place : side_outputs_) body.output(places.at(place));
    Graph finished = body.finish();
    add_witnesses(finished);
    loop_.body = std::make_shared<const Graph>(roll(finished));
    loop_.trip_count = static_cast<int64_t>(blocks);
    loop_.carried = 1;
    loop_.invariant = static_cast<int>(chain_.shared.size() + witnesses_.size());
    loop_.per_iteration = static_cast<int>(chain_.varying.size());
    loop_.outputs = static_cast<int>(side_outputs_.size());
  }

  // The loop's operands precede every block node, but other nodes may stand between them: order by
  // dependency, with all blocks treated as one node.
  Graph rebuild() {
    GraphBuilder builder(graph_.symbols);
    std::unordered_map<NodeId, NodeId> renamed;
    for (const GraphInput& input : graph_.inputs) {
      input_nodes_.push_back(builder.input(input.kind, input.dtype, input.shape, input.name));
    }
    for (const GraphOutput& output : graph_.outputs) emit(output.node, builder, renamed);
    for (const GraphOutput& output : graph_.outputs) {
      if (output.kind == OutputKind::kUser) builder.output(renamed.at(output.node));
      if (output.kind == OutputKind::kMutate) {
        builder.mutate(output.input, renamed.at(output.node));
      }
    }
    return builder.finish();
  }

  std::vector<NodeId> loop_operands() const {
    std::vector<NodeId> operands{chain_.initial};
    operands.insert(operands.end(), chain_.shared.begin(), chain_.shared.end());
    operands.insert(operands.end(), witnesses_.begin(), witnesses_.end());
    for (const Tuple& tuple : chain_.varying) {
      operands.insert(operands.end(), tuple.begin(), tuple.end());
    }
    return operands;
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
      bool in_block = block_of_[at(id)] >= 0;
      std::vector<NodeId> needs = in_block ? loop_operands() : node.operands;
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
    Node loop{Op::kLoop, graph_.node(chain_.initial).dtype, {}, {}, loop_};
    for (NodeId id : loop_operands()) loop.operands.push_back(renamed.at(id));
    NodeId node = builder.raw(std::move(loop));
    auto result = [&](int64_t index) {
      return builder.raw(
          {Op::kLoopResult, {}, {}, {node}, LoopResultAttr{static_cast<int>(index)}});
    };
    for (size_t q = 0; q < side_outputs_.size(); ++q) {
      for (size_t k = 0; k < side_outputs_[q].size(); ++k) {
        renamed[side_outputs_[q][k]] =
            result(1 + static_cast<int64_t>(q) * loop_.trip_count + static_cast<int64_t>(k));
      }
    }
    renamed[chain_.anchors.back()] = result(0);
    // Interior nodes that nothing outside reads need no name, but mark them as done.
    for (const Tuple& place : chain_.interior) {
      for (NodeId id : place) renamed.emplace(id, node);
    }
  }

  const Graph& graph_;
  const Chain& chain_;
  std::vector<int> block_of_;
  std::vector<Tuple> side_outputs_;
  LoopAttr loop_;
  std::vector<NodeId> witnesses_;
  std::vector<NodeId> input_nodes_;
};

}  // namespace

Graph roll(const Graph& graph) {
  Graph current = without_dead_nodes(graph);
  while (auto chain = ChainSearch(current).run()) current = Folder(current, *chain).run();
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
  std::vector<NodeId> inputs;
  for (const GraphInput& input : graph.inputs) {
    inputs.push_back(builder.input(input.kind, input.dtype, input.shape, input.name));
  }
  std::vector<NodeId> outputs = inline_graph(graph, inputs, builder);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const GraphOutput& output = graph.outputs[k];
    if (output.kind == OutputKind::kUser) builder.output(outputs[k]);
    if (output.kind == OutputKind::kMutate) builder.mutate(output.input, outputs[k]);
  }
  return builder.finish();
}

}  // namespace common
