#include "common/ir/roll/roll_side.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/base/hash64.h"

namespace common {
namespace {

size_t at(NodeId id) { return static_cast<size_t>(id); }

struct TupleHash {
  size_t operator()(const Tuple& tuple) const {
    return hash64(std::as_bytes(std::span<const NodeId>(tuple)));
  }
};

bool is_one_node(const Tuple& tuple) {
  return std::ranges::all_of(tuple, [&](NodeId id) { return id == tuple[0]; });
}

bool has_repeats(Tuple tuple) {
  std::ranges::sort(tuple);
  return std::ranges::adjacent_find(tuple) != tuple.end();
}

class SideResults {
 public:
  SideResults(const Graph& graph, Chain chain)
      : graph_(graph),
        chain_(std::move(chain)),
        users_(graph.nodes.size()),
        taken_(graph.nodes.size(), 0),
        depends_(graph.nodes.size(), 0),
        is_output_(graph.nodes.size(), 0) {}

  Chain run() {
    look_at_graph();
    for (const CarriedValue& value : chain_.carried) {
      Tuple read = value.place;
      read.insert(read.begin(), value.initial);
      read.pop_back();
      know(std::move(read));
    }
    for (const Tuple& place : chain_.interior) know(place);
    for (const Tuple& tuple : chain_.varying) know(tuple);
    for (const auto* nodes : {&chain_.shared, &chain_.copied}) {
      for (NodeId id : *nodes) known_.insert(Tuple(chain_.blocks, id));
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) take_place_of(static_cast<NodeId>(i));
    keep_what_outputs_need();
    return std::move(chain_);
  }

 private:
  // A place that is added to the blocks. An aid reads nothing of the blocks: it is computed inside
  // so that no view of an operand is stored, and outside as well where something there reads it.
  struct Added {
    Tuple place;
    bool is_aid = false;
  };

  void look_at_graph() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (NodeId operand : graph_.nodes[i].operands) {
        std::vector<NodeId>& users = users_[at(operand)];
        if (users.empty() || at(users.back()) != i) users.push_back(static_cast<NodeId>(i));
      }
    }
    for (const GraphOutput& output : graph_.outputs) is_output_[at(output.node)] = 1;
    for (const Tuple& place : chain_.interior) {
      for (NodeId id : place) taken_[at(id)] = depends_[at(id)] = 1;
    }
    for (NodeId id : chain_.hoisted) depends_[at(id)] = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (NodeId operand : graph_.nodes[i].operands) depends_[i] |= depends_[at(operand)];
    }
  }

  void know(Tuple tuple) {
    auto [it, is_new] = known_.insert(std::move(tuple));
    if (is_new) by_first_[it->front()].push_back(&*it);
  }
  void forget(const Tuple& tuple) {
    auto it = known_.find(tuple);
    if (it == known_.end()) return;
    std::erase(by_first_[it->front()], &*it);
    known_.erase(it);
  }

  bool are_alike(NodeId a, NodeId b) const {
    const Node &first = graph_.node(a), &second = graph_.node(b);
    return first.op == second.op && first.dtype == second.dtype && first.shape == second.shape &&
           first.attr == second.attr && first.operands.size() == second.operands.size();
  }
  bool can_be_inside(NodeId id) const {
    Op op = graph_.node(id).op;
    return op != Op::kInput && op != Op::kLoop && op != Op::kLoopResult;
  }

  // The place whose member in the first block is this node, where there is one.
  void take_place_of(NodeId first) {
    if (taken_[at(first)] || !can_be_inside(first)) return;
    const Node& node = graph_.node(first);
    for (size_t k = 0; k < node.operands.size(); ++k) {
      auto tuples = by_first_.find(node.operands[k]);
      if (tuples == by_first_.end()) continue;
      const std::vector<const Tuple*> candidates = tuples->second;
      for (const Tuple* operands : candidates) {
        if (is_one_node(*operands) || !take(partners(first, k, *operands))) continue;
        return;
      }
    }
  }

  // The nodes that do in each block what `first` does in the first one; fewer when one is missing.
  Tuple partners(NodeId first, size_t operand, const Tuple& operands) const {
    Tuple place{first};
    for (size_t block = 1; block < chain_.blocks; ++block) {
      const std::vector<NodeId>& users = users_[at(operands[block])];
      auto partner = std::ranges::find_if(users, [&](NodeId user) {
        return !taken_[at(user)] && are_alike(first, user) &&
               graph_.node(user).operands[operand] == operands[block] &&
               may_read_alike(first, user, block);
      });
      if (partner == users.end()) break;
      place.push_back(*partner);
    }
    return place;
  }

  bool may_read_alike(NodeId first, NodeId other, size_t block) const {
    for (size_t k = 0; k < graph_.node(first).operands.size(); ++k) {
      NodeId a = graph_.node(first).operands[k], b = graph_.node(other).operands[k];
      auto tuples = by_first_.find(a);
      bool is_known = tuples != by_first_.end() &&
                      std::ranges::any_of(tuples->second,
                                          [&](const Tuple* tuple) { return (*tuple)[block] == b; });
      if (!is_known && (depends_[at(a)] || depends_[at(b)])) return false;
    }
    return true;
  }

  bool take(const Tuple& place) {
    if (place.size() != chain_.blocks || has_repeats(place)) return false;
    // What reads operands of the blocks alone is no result of theirs.
    if (std::ranges::none_of(place, [&](NodeId id) { return depends_[at(id)] != 0; })) return false;
    const size_t added = added_.size(), varying = varying_.size(), shared = shared_.size();
    if (!know_operands(place)) {
      undo(added, varying, shared);
      return false;
    }
    add(place, false);
    return true;
  }

  void add(const Tuple& place, bool is_aid) {
    know(place);
    added_.push_back({place, is_aid});
    if (is_aid) return;
    for (NodeId id : place) taken_[at(id)] = 1;
  }

  bool know_operands(const Tuple& place) {
    std::vector<Tuple> operands = operands_of(place);
    return std::ranges::all_of(operands, [&](const Tuple& tuple) { return can_be_read(tuple); });
  }

  // Whether the blocks can read the nodes, one in each, of which note is taken.
  bool can_be_read(const Tuple& tuple) {
    if (known_.count(tuple) != 0) return true;
    const Node& first = graph_.node(tuple[0]);
    for (NodeId id : tuple) {
      const Node& node = graph_.node(id);
      if (depends_[at(id)] || node.dtype != first.dtype || node.shape != first.shape) return false;
    }
    if (is_one_node(tuple)) {
      known_.insert(tuple);
      shared_.push_back(tuple[0]);
      return true;
    }
    const size_t added = added_.size(), varying = varying_.size(), shared = shared_.size();
    if (is_better_inside(tuple) && know_operands(tuple)) {
      add(tuple, true);
      return true;
    }
    undo(added, varying, shared);
    know(tuple);
    varying_.push_back(tuple);
    return true;
  }

  // Views, conversions and what nothing else reads; an operand of the loop would be stored.
  bool is_better_inside(const Tuple& tuple) const {
    if (!can_be_inside(tuple[0]) || has_repeats(tuple)) return false;
    Op op = graph_.node(tuple[0]).op;
    bool is_free_op = op == Op::kView || op == Op::kCast || op == Op::kConstant || op == Op::kIota;
    return std::ranges::all_of(tuple, [&](NodeId id) {
      bool is_read_once = users_[at(id)].size() == 1 && !is_output_[at(id)];
      return are_alike(tuple[0], id) && (is_free_op || is_read_once);
    });
  }

  void undo(size_t added, size_t varying, size_t shared) {
    for (size_t k = added; k < added_.size(); ++k) forget(added_[k].place);
    for (size_t k = varying; k < varying_.size(); ++k) forget(varying_[k]);
    for (size_t k = shared; k < shared_.size(); ++k) known_.erase(Tuple(chain_.blocks, shared_[k]));
    added_.resize(added);
    varying_.resize(varying);
    shared_.resize(shared);
  }

  std::vector<Tuple> operands_of(const Tuple& place) const {
    std::vector<Tuple> all(graph_.node(place[0]).operands.size());
    for (NodeId id : place) {
      for (size_t k = 0; k < all.size(); ++k) all[k].push_back(graph_.node(id).operands[k]);
    }
    return all;
  }

  // What something else reads, too, stays outside, since its value would have to be stored, and so
  // does what reads that.
  void keep_what_outputs_need() {
    std::unordered_set<Tuple, TupleHash> read;
    while (drop_what_others_need(read) || drop_what_lacks_operands()) {
    }
    for (Added& one : added_) {
      if (one.is_aid) {
        chain_.hoisted.insert(chain_.hoisted.end(), one.place.begin(), one.place.end());
      }
      chain_.interior.push_back(std::move(one.place));
    }
    for (const Tuple& tuple : varying_) {
      if (read.count(tuple) != 0) chain_.varying.push_back(tuple);
    }
    for (NodeId id : shared_) {
      if (read.count(Tuple(chain_.blocks, id)) != 0) share(graph_, id, chain_);
    }
  }

  // `read`: what the places that are left read. Whether any was dropped.
  bool drop_what_others_need(std::unordered_set<Tuple, TupleHash>& read) {
    std::vector<char> kept(graph_.nodes.size(), 0);
    read.clear();
    auto is_kept = [&](NodeId id) { return kept[at(id)] != 0; };
    auto is_wanted = [&](const Added& one) {
      if (one.is_aid) return read.count(one.place) != 0;
      return std::ranges::all_of(one.place, [&](NodeId id) {
        return (is_output_[at(id)] || !users_[at(id)].empty()) &&
               std::ranges::all_of(users_[at(id)], is_kept);
      });
    };
    std::vector<Added> wanted;
    for (size_t k = added_.size(); k-- > 0;) {
      if (!is_wanted(added_[k])) continue;
      for (Tuple& operands : operands_of(added_[k].place)) read.insert(std::move(operands));
      for (NodeId id : added_[k].place) kept[at(id)] = !added_[k].is_aid;
      wanted.push_back(std::move(added_[k]));
    }
    std::ranges::reverse(wanted);
    bool has_dropped = wanted.size() != added_.size();
    for (const Added& one : added_) {
      if (!one.place.empty()) known_.erase(one.place);
    }
    added_ = std::move(wanted);
    return has_dropped;
  }

  bool drop_what_lacks_operands() {
    auto lacks_operands = [&](const Added& one) {
      std::vector<Tuple> operands = operands_of(one.place);
      bool lacks = std::ranges::any_of(
          operands, [&](const Tuple& tuple) { return known_.count(tuple) == 0; });
      if (lacks) known_.erase(one.place);
      return lacks;
    };
    return std::erase_if(added_, lacks_operands) != 0;
  }

  const Graph& graph_;
  Chain chain_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<char> taken_;                     // of each node: it is inside a block
  std::vector<char> depends_;                   // it reads what is inside a block, or is
  std::vector<char> is_output_;                 // of the graph
  std::unordered_set<Tuple, TupleHash> known_;  // that the blocks hold or read
  std::unordered_map<NodeId, std::vector<const Tuple*>> by_first_;  // of these, those that differ
  // In the order of their additions, operands before users.
  std::vector<Added> added_;
  std::vector<Tuple> varying_;
  std::vector<NodeId> shared_;
};

}  // namespace

Chain with_side_results(const Graph& graph, Chain chain) {
  return SideResults(graph, std::move(chain)).run();
}

}  // namespace common
