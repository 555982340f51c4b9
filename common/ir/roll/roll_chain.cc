#include "common/ir/roll/roll_chain.h"

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include "common/base/hash64.h"
#include "common/ir/expr/index.h"

namespace common {
namespace {

// Numbers tuples of one arity.
class TupleTable {
 public:
  explicit TupleTable(size_t arity) : arity_(arity), slots_(256, -1) { flat_.reserve(64 * arity); }

  std::span<const NodeId> operator[](int index) const {
    return {flat_.data() + static_cast<size_t>(index) * arity_, arity_};
  }
  Tuple copy(int index) const {
    auto tuple = (*this)[index];
    return Tuple(tuple.begin(), tuple.end());
  }
  // The number, and whether the tuple is new.
  std::pair<int, bool> intern(std::span<const NodeId> tuple) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    size_t slot = slot_of(tuple);
    if (slots_[slot] >= 0) return {slots_[slot], false};
    slots_[slot] = static_cast<int>(count_++);
    flat_.insert(flat_.end(), tuple.begin(), tuple.end());
    return {slots_[slot], true};
  }

 private:
  size_t slot_of(std::span<const NodeId> tuple) const {
    uint64_t hash = 0;
    for (NodeId id : tuple) hash = combine64(hash, static_cast<uint64_t>(id));
    size_t slot = hash & (slots_.size() - 1);
    while (slots_[slot] >= 0 && !std::ranges::equal((*this)[slots_[slot]], tuple)) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }
  void grow() {
    slots_.assign(slots_.size() * 2, -1);
    for (size_t i = 0; i < count_; ++i) {
      slots_[slot_of((*this)[static_cast<int>(i)])] = static_cast<int>(i);
    }
  }

  size_t arity_;
  size_t count_ = 0;
  std::vector<NodeId> flat_;
  std::vector<int> slots_;
};

// What a node is made of, looked at only as far back as it is asked about.
class Ancestors {
 public:
  Ancestors(const Graph& graph, NodeId of) : graph_(graph), next_(of), marked_(at(of) + 1, 0) {
    marked_[at(of)] = 1;
  }
  // The node itself counts.
  bool contains(NodeId id) {
    if (at(id) >= marked_.size()) return false;
    for (; next_ > id; --next_) {
      if (!marked_[at(next_)]) continue;
      for (NodeId operand : graph_.node(next_).operands) marked_[at(operand)] = 1;
    }
    return marked_[at(id)] != 0;
  }

 private:
  const Graph& graph_;
  NodeId next_;
  std::vector<char> marked_;
};

// From the blocks' ends back to what they read.
class Walk {
 public:
  Walk(const Graph& graph, const Tuple& anchors)
      : graph_(graph),
        blocks_(anchors.size()),
        tuples_(blocks_),
        before_(graph, anchors[blocks_ - 2]) {
    chain_.blocks = blocks_;
    tuples_.intern(anchors);
    roles_.push_back(role(anchors));
  }

  // Whether there is such a chain.
  bool run() {
    if (!classify()) return false;
    collect();
    resolve_carried();
    return !chain_.carried.empty() && !concatenates() && operands_precede_blocks();
  }
  size_t interior_size() const { return interior_.size(); }
  const std::vector<CarriedValue>& carried() const { return chain_.carried; }

  Chain take() {
    for (int tuple : interior_) chain_.interior.push_back(tuples_.copy(tuple));
    for (int tuple : varying_) chain_.varying.push_back(tuples_.copy(tuple));
    return std::move(chain_);
  }

 private:
  enum class Role : char { kCarried, kShared, kVarying, kInterior, kEarlier, kMismatch };

  static bool follows(std::span<const NodeId> tuple, std::span<const NodeId> place) {
    return std::equal(tuple.begin() + 1, tuple.end(), place.begin());
  }

  // Some blocks, but not all, share the value (one of two masks, say): no block computes it.
  bool repeats(std::span<const NodeId> tuple) {
    sorted_.assign(tuple.begin(), tuple.end());
    std::ranges::sort(sorted_);
    return std::ranges::adjacent_find(sorted_) != sorted_.end();
  }

  Role role(std::span<const NodeId> tuple) {
    const Node& first = graph_.node(tuple[0]);
    bool all_equal = true;
    bool same_type = true;
    bool same_operation = first.op != Op::kInput;
    for (NodeId id : tuple) {
      if (id == tuple[0]) continue;
      all_equal = false;
      const Node& node = graph_.node(id);
      same_type = same_type && node.dtype == first.dtype && node.shape == first.shape;
      same_operation = same_operation && node.op == first.op && node.attr == first.attr &&
                       node.operands.size() == first.operands.size();
    }
    if (all_equal) return Role::kShared;
    if (!same_type) return Role::kMismatch;
    NodeId last = tuple.back();
    // What already went into the block before is its result, or older than all blocks.
    if (graph_.node(last).op != Op::kInput && before_.contains(last)) return Role::kEarlier;
    if (!same_operation || first.op == Op::kLoop || first.op == Op::kLoopResult) {
      return Role::kVarying;
    }
    return repeats(tuple) ? Role::kVarying : Role::kInterior;
  }

  size_t operand_count(int place) const { return graph_.node(tuples_[place][0]).operands.size(); }
  // The tuple that a place reads.
  std::pair<int, bool> operand(int place, size_t index) {
    auto nodes = tuples_[place];
    operands_.clear();
    for (NodeId id : nodes) operands_.push_back(graph_.node(id).operands[index]);
    return tuples_.intern(operands_);
  }

  // Classifies the anchors and all they are made of; depth first without recursion. Where blocks
  // read what is of different types, the reader is not of the block but one of its operands.
  bool classify() {
    if (roles_[kAnchors] != Role::kInterior) return false;
    std::vector<std::pair<int, size_t>> stack{{kAnchors, 0}};
    size_t interior_max = graph_.nodes.size() / (blocks_ - 1) + 1;
    size_t interior = 0;
    while (!stack.empty()) {
      auto& [place, next] = stack.back();
      if (next == operand_count(place)) {
        if (++interior > interior_max) return false;
        stack.pop_back();
        continue;
      }
      auto [tuple, first_seen] = operand(place, next++);
      if (first_seen) roles_.push_back(role(operands_));
      Role found = roles_[static_cast<size_t>(tuple)];
      if (found == Role::kMismatch) {
        roles_[static_cast<size_t>(place)] = Role::kVarying;
        stack.pop_back();
      } else if (first_seen && found == Role::kInterior) {
        stack.emplace_back(tuple, 0);
      }
    }
    return roles_[kAnchors] == Role::kInterior;
  }

  // Lists what the blocks hold and read, now that all roles are known.
  void collect() {
    std::vector<char> seen(roles_.size(), 0);
    seen[kAnchors] = 1;
    std::vector<std::pair<int, size_t>> stack{{kAnchors, 0}};
    while (!stack.empty()) {
      auto& [place, next] = stack.back();
      if (next == operand_count(place)) {
        interior_.push_back(place);
        stack.pop_back();
        continue;
      }
      int tuple = operand(place, next++).first;
      if (std::exchange(seen[static_cast<size_t>(tuple)], 1)) continue;
      Role found = roles_[static_cast<size_t>(tuple)];
      if (found == Role::kShared) share(tuples_[tuple][0]);
      if (found == Role::kEarlier) earlier_.push_back(tuple);
      if (found == Role::kVarying) varying_.push_back(tuple);
      if (found == Role::kInterior) stack.emplace_back(tuple, 0);
    }
  }

  // Views and constants are copied into the body: passed in, a broadcast would have to be stored.
  // So is what compares positions: rules can tell its values only where they are made, and kernels
  // leave out what it hides.
  void share(NodeId id) {
    if (!shared_.insert(id).second) return;
    const Node& node = graph_.node(id);
    if (node.op == Op::kView || compares_positions(graph_, id)) {
      for (NodeId operand : graph_.node(id).operands) share(operand);
      chain_.copied.push_back(id);
    } else {
      chain_.shared.push_back(id);
    }
  }

  // An earlier value is carried if it is what some place, or some carried value, was in the block
  // before.
  void resolve_carried() {
    auto first_node = [&](int place) { return tuples_[place][0]; };
    std::vector<int> carriers = interior_;
    for (bool found = !earlier_.empty(); std::exchange(found, false);) {
      std::ranges::stable_sort(carriers, {}, first_node);
      std::vector<int> unresolved;
      std::vector<int> resolved;
      for (int tuple : earlier_) {
        auto nodes = tuples_[tuple];
        // The carriers of one first node lie side by side.
        auto carrier = std::ranges::lower_bound(carriers, nodes[1], {}, first_node);
        while (carrier != carriers.end() && first_node(*carrier) == nodes[1] &&
               !follows(nodes, tuples_[*carrier])) {
          ++carrier;
        }
        if (carrier == carriers.end() || first_node(*carrier) != nodes[1]) {
          unresolved.push_back(tuple);
          continue;
        }
        roles_[static_cast<size_t>(tuple)] = Role::kCarried;
        chain_.carried.push_back({nodes[0], tuples_.copy(*carrier)});
        resolved.push_back(tuple);
        found = true;
      }
      carriers.insert(carriers.end(), resolved.begin(), resolved.end());
      earlier_ = std::move(unresolved);
    }
    for (int tuple : earlier_) roles_[static_cast<size_t>(tuple)] = Role::kVarying;
    varying_.insert(varying_.end(), earlier_.begin(), earlier_.end());
  }

  // Whether blocks do no more with what they carry than to keep it at some positions and to put a
  // value of their own at the others: a concatenation, as choices between its pieces. As a loop
  // each block would store its piece in the size of the whole, and copy the whole.
  bool concatenates() {
    // All that is carried goes into the end, which few blocks choose.
    if (graph_.node(tuples_[kAnchors][0]).op != Op::kSelect) return false;
    const std::vector<int> late = late_places();
    std::vector<char> is_late(roles_.size(), 0);
    for (int place : late) is_late[static_cast<size_t>(place)] = 1;
    return std::ranges::all_of(late, [&](int place) {
      const Node& node = graph_.node(tuples_[place][0]);
      if (node.op != Op::kSelect) return node.op == Op::kView;
      auto condition = static_cast<size_t>(operand(place, 0).first);
      return !is_late[condition] && compares_positions(graph_, node.operands[0]);
    });
  }

  // The places that need a carried value.
  std::vector<int> late_places() {
    std::vector<char> late(roles_.size(), 0);
    std::vector<int> found;
    for (int place : interior_) {
      bool is_late = false;
      for (size_t o = 0; o < operand_count(place) && !is_late; ++o) {
        auto tuple = static_cast<size_t>(operand(place, o).first);
        is_late = late[tuple] || roles_[tuple] == Role::kCarried;
      }
      late[static_cast<size_t>(place)] = is_late;
      if (is_late) found.push_back(place);
    }
    return found;
  }

  // What enters the loop must not depend on what a carried value has gone into.
  bool operands_precede_blocks() {
    auto first_inside = static_cast<NodeId>(graph_.nodes.size());
    for (int place : interior_) {
      for (NodeId id : tuples_[place]) first_inside = std::min(first_inside, id);
    }
    NodeId last_needed = -1;
    auto need = [&](NodeId id) { last_needed = std::max(last_needed, id); };
    for (const CarriedValue& value : chain_.carried) need(value.initial);
    for (NodeId id : chain_.shared) need(id);
    for (int tuple : varying_) std::ranges::for_each(tuples_[tuple], need);
    if (last_needed < first_inside) return true;

    std::vector<char> tainted(at(last_needed) + 1, 0);
    for (int place : late_places()) {
      for (NodeId id : tuples_[place]) {
        if (id <= last_needed) tainted[at(id)] = 1;
      }
    }
    for (size_t i = at(first_inside); i < tainted.size(); ++i) {
      for (NodeId operand : graph_.nodes[i].operands) tainted[i] |= tainted[at(operand)];
    }
    auto is_tainted = [&](NodeId id) { return tainted[at(id)] != 0; };
    for (const CarriedValue& value : chain_.carried) {
      if (is_tainted(value.initial)) return false;
    }
    if (std::ranges::any_of(chain_.shared, is_tainted)) return false;
    for (int tuple : varying_) {
      if (std::ranges::any_of(tuples_[tuple], is_tainted)) return false;
    }
    collect_hoisted(first_inside, last_needed);
    return true;
  }

  // Nodes of blocks among what the loop's operands are made of.
  void collect_hoisted(NodeId first_inside, NodeId last_needed) {
    std::vector<char> inside(at(last_needed) + 1, 0);
    for (int place : interior_) {
      for (NodeId id : tuples_[place]) {
        if (id <= last_needed) inside[at(id)] = 1;
      }
    }
    std::vector<char> needed(at(last_needed) + 1, 0);
    auto need = [&](NodeId id) { needed[at(id)] = 1; };
    for (const CarriedValue& value : chain_.carried) need(value.initial);
    std::ranges::for_each(chain_.shared, need);
    for (int tuple : varying_) std::ranges::for_each(tuples_[tuple], need);
    for (NodeId id = last_needed; id >= first_inside; --id) {
      if (!needed[at(id)]) continue;
      std::ranges::for_each(graph_.node(id).operands, need);
      if (inside[at(id)]) chain_.hoisted.push_back(id);
    }
  }

  static constexpr int kAnchors = 0;  // their tuple

  const Graph& graph_;
  size_t blocks_;
  TupleTable tuples_;
  std::vector<Role> roles_;  // by tuple
  std::vector<int> interior_, varying_, earlier_;
  Ancestors before_;
  std::unordered_set<NodeId> shared_;
  Tuple operands_, sorted_;  // scratch
  Chain chain_;
};

}  // namespace

PairEstimate estimate_pair(const Graph& graph, NodeId first, NodeId second) {
  Walk walk(graph, {first, second});
  if (!walk.run()) return {};
  PairEstimate estimate{discounted(walk.interior_size(), walk.carried().size()),
                        walk.carried().size(), -1};
  for (const CarriedValue& value : walk.carried()) {
    if (value.place.back() == second) estimate.initial = value.initial;
  }
  return estimate;
}

bool is_free(const Graph& graph, NodeId id) {
  const Node* node = &graph.node(id);
  while (node->op == Op::kView) node = &graph.node(node->operands[0]);
  return node->op == Op::kConstant || node->op == Op::kIota;
}

bool compares_positions(const Graph& graph, NodeId id) {
  // Masks are some ten nodes; what is larger is computed once.
  constexpr size_t kNodesMax = 48;
  std::vector<NodeId> open{id};
  std::unordered_set<NodeId> seen{id};
  while (!open.empty()) {
    NodeId next = open.back();
    open.pop_back();
    if (is_free(graph, next)) continue;
    const Node& node = graph.node(next);
    bool is_whole = is_integer(node.dtype) || node.dtype == DType::kBool;
    bool fits = node.op == Op::kView || node.op == Op::kCast || node.op == Op::kSelect ||
                ((node.op == Op::kBinary || node.op == Op::kUnary) && is_whole);
    if (!fits || seen.size() > kNodesMax) return false;
    for (NodeId operand : node.operands) {
      if (seen.insert(operand).second) open.push_back(operand);
    }
  }
  return true;
}

std::optional<Chain> find_chain(const Graph& graph, const Tuple& anchors) {
  Walk walk(graph, anchors);
  if (!walk.run()) return std::nullopt;
  return walk.take();
}

}  // namespace common
