// The e-graph: many equal programs stored once, as classes of hash-consed e-nodes in flat arrays.
//
// A node is a head (operator with attributes, interned by the caller) and child classes. merge()
// only records that two classes are equal; rebuild() restores congruence for what changed. Between
// rebuilds nodes and class lists stay as they were, so that a search over the nodes stamped up to
// an epoch sees one snapshot while its matches are already being applied.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "coordinator/egraph/analysis.h"
#include "coordinator/egraph/explain.h"
#include "coordinator/egraph/flat_array.h"
#include "coordinator/egraph/ids.h"

namespace coordinator {

struct EGraphOptions {
  // The family of a head: heads that differ in attributes only share one, and patterns can match
  // it. Called once for each head. Empty: every head is a family of its own.
  std::function<uint32_t(Head)> family_of;
  // Not owned; must outlive the e-graph. May be null.
  Analysis* analysis = nullptr;
  // Keep what made every node and union, for explain() and for crediting rules: 24 bytes a node and
  // 4 a child more. Nothing is paid when off.
  bool explanations = false;
};

// Not thread-safe: even find() shortens paths.
class EGraph {
 public:
  explicit EGraph(EGraphOptions options = {});
  EGraph(EGraph&&) = default;
  EGraph& operator=(EGraph&&) = delete;

  // --- building ---
  // The class of the node, made if it is new. The head is any number but kNone.
  ClassId add(Head head, std::span<const ClassId> children);
  ClassId add(Head head, std::initializer_list<ClassId> children) {
    return add(head, std::span<const ClassId>(children.begin(), children.size()));
  }
  // The class of the node if it is there. Between a merge and rebuild() it may miss a node whose
  // children were merged.
  std::optional<ClassId> lookup(Head head, std::span<const ClassId> children) const;
  // Declares two classes equal; false when they were already.
  bool merge(ClassId a, ClassId b) { return merge(a, b, why_.reason); }
  // Restores congruence, the canonical form of all nodes and the analysis. Cost is proportional to
  // what was merged since the last rebuild.
  void rebuild();
  bool is_clean() const { return work_.pending.empty() && work_.data.empty() && !fresh_.adopted; }

  // --- why; see EGraphOptions::explanations ---
  // What the following add() and merge() calls are put down to. Does nothing without explanations.
  void set_reason(std::string_view name) {
    if (why_.proofs) why_.reason = why_.proofs->reason_named(name);
  }
  // Null without explanations.
  const ProofForest* proofs() const { return why_.proofs.get(); }
  // The chain of unions that makes two classes equal, as text (ProofForest::explain). kInvalidInput
  // when they are not equal or explanations are off.
  common::Result<std::string> explain(ClassId a, ClassId b,
                                      const std::function<std::string(Head)>& head_name) const;

  ClassId find(ClassId id) const {
    uint32_t* up = sets_.up;
    while (up[id] != id) {
      up[id] = up[up[id]];
      id = up[id];
    }
    return id;
  }

  // --- reading; canonical after rebuild() ---
  Head head(NodeId node) const { return nodes_[node].head; }
  uint32_t arity(NodeId node) const { return arity_of(nodes_[node]); }
  // Valid until the next add().
  std::span<const ClassId> children(NodeId node) const { return children_of(nodes_[node]); }
  ClassId class_of(NodeId node) const { return find(nodes_[node].cls); }
  bool is_live(NodeId node) const { return nodes_[node].head != kNone; }
  uint32_t family(Head head) const { return heads_.all[head].family; }

  // Calls f(NodeId) for each node of a canonical class; f must not change the e-graph.
  template <class F>
  void for_each_node(ClassId cls, F&& f) const {
    for (NodeId n = first_node(cls); n != kNone; n = nodes_[n].next) {
      if (nodes_[n].head != kNone) f(n);
    }
  }
  // Calls f(NodeId) for each use of a canonical class as a child: a node that uses it twice comes
  // twice. f must not change the e-graph.
  template <class F>
  void for_each_parent(ClassId cls, F&& f) const {
    for (uint32_t s = classes_[cls].parents_first; s != kNone; s = link(s)) {
      NodeId n = owner(s);
      if (nodes_[n].head != kNone) f(n);
    }
  }
  // Calls f(NodeId) for each live node with this head.
  template <class F>
  void for_each_with_head(Head head, F&& f) const {
    if (head >= heads_.all.size()) return;
    for (const LogEntry& e : heads_.all[head].log) {
      if (nodes_[e.node].stamp == e.stamp && nodes_[e.node].head == head) f(e.node);
    }
  }
  std::vector<NodeId> nodes(ClassId cls) const;
  // Canonical class ids, ascending.
  std::vector<ClassId> classes() const;

  // Live nodes; between rebuilds this counts duplicates that the next rebuild removes.
  size_t node_count() const { return counts_.live_nodes; }
  size_t class_count() const { return class_ids() - counts_.merges; }
  size_t node_count(ClassId cls) const {
    return classes_[cls].node_count - classes_[cls].dead_nodes;
  }
  size_t node_count_with_head(Head head) const {
    return head < heads_.all.size() ? heads_.all[head].live : 0;
  }
  // Ids given so far: the bound of arrays indexed by class or node.
  size_t class_ids() const { return classes_.size(); }
  size_t node_ids() const { return nodes_.size(); }
  // Ever-growing counters, for telling whether something changed.
  uint64_t merges() const { return counts_.merges; }
  uint64_t nodes_created() const { return nodes_.size(); }
  // Bytes of the arrays in use.
  size_t bytes() const;

  // --- epochs: what changed since when ---
  // Nodes are stamped with the epoch in which they were made or last changed (re-keyed, moved to
  // another class, or facts of their class or children changed). Starts at 1.
  uint32_t epoch() const { return epoch_; }
  void advance_epoch() { ++epoch_; }
  uint32_t stamp(NodeId node) const { return nodes_[node].stamp; }

  // --- looking inside ---
  // One line for each class, "c3: (add c1 c2) | x", ordered by class id, nodes in text order.
  std::string dump(const std::function<std::string(Head)>& head_name) const;
  // For tests: the first broken invariant of a clean e-graph, by a full sweep.
  common::Status check_invariants() const;

 private:
  friend class Matcher;
  friend class Applier;

  // Half a cache line. Up to two children are inline; with more, child = {kWide, arity} and
  // link[0] is the offset in the wide arrays. A dead node (a duplicate) has head kNone.
  struct Node {
    Head head;
    ClassId cls;     // whose list holds this node
    NodeId next;     // in that list
    uint32_t stamp;  // epoch of the last change
    ClassId child[2];
    uint32_t link[2];  // next use of the same child class
  };
  static_assert(sizeof(Node) == 32);
  static constexpr uint32_t kWide = 0xfffffffe;
  static constexpr uint32_t kWideSlot = 0x80000000;

  // Two in a cache line. Nodes adopted since the last rebuild stand before `shown_first`. The ends
  // of the lists are not kept: a list moves only after a walk over all of it.
  struct ClassRecord {
    NodeId nodes_first;
    NodeId shown_first;      // where readers start in the round `shown_round`
    uint32_t shown_round;    // in any other round they start at nodes_first
    uint32_t node_count;     // list length, dead nodes included
    uint32_t parents_first;  // slots: 2 * node + position, or kWideSlot | wide index
    uint32_t parent_count;
    uint32_t dead_nodes;
    uint32_t dead_parents;
  };
  static_assert(sizeof(ClassRecord) == 32);
  static constexpr ClassRecord kNoNodes = {kNone, kNone, 0, 0, kNone, 0, 0, 0};
  // A node's entry in its head's log is current when the stamps agree; stamps ascend.
  struct LogEntry {
    NodeId node;
    uint32_t stamp;
  };
  struct HeadInfo {
    uint32_t family = kNone;  // kNone until the head is seen
    uint32_t live = 0;
    uint32_t mask = 0;  // the bits of the head and of its family
    FlatArray<LogEntry> log;
  };
  // A slot whose node has another key by now is garbage that no probe matches; rehash() drops it.
  struct Slot {
    uint32_t hash;
    NodeId node;  // kNone: empty
  };
  struct Pending {
    ClassId loser;
    ClassId winner;
    bool data_changed;
  };

  // Children of nodes that have more than two.
  struct Wide {
    FlatArray<ClassId> child;
    FlatArray<uint32_t> link;
    FlatArray<NodeId> owner;
  };
  struct UnionFind {
    FlatArray<ClassId> parents;
    uint32_t* up = nullptr;  // the array's data
  };
  // Nodes by their keys.
  struct HashTable {
    FlatArray<Slot> slots;
    size_t used = 0;
    size_t max_used = 0;
    int shift = 31;
  };
  struct Heads {
    std::vector<HeadInfo> all;
    std::map<uint32_t, std::vector<Head>> families;  // heads in the order they were met
    size_t log_entries = 0;
  };
  struct Counts {
    size_t live_nodes = 0;
    uint64_t merges = 0;
    uint64_t rebuilds = 0;
  };
  // Nodes that were made since the last rebuild.
  struct Fresh {
    NodeId first = 0;      // from here on
    bool adopted = false;  // some of them have joined a class
    uint32_t round = 1;    // goes up with each rebuild after which such nodes are shown
  };
  // How far the parents of pending losers were fetched: up to this slot in the list of this loser;
  // kNone: its list was not begun.
  struct Fetched {
    size_t loser = 0;
    uint32_t slot = kNone;
  };
  // What the next rebuild has to do, and what it works with.
  struct Work {
    std::vector<Pending> pending;
    std::vector<ClassId> data;
    std::vector<uint8_t> in_data;
    std::vector<ClassId> sweep;
    std::vector<ClassId> scratch;
    bool rebuilding = false;
  };
  // Why what follows is added.
  struct Why {
    std::unique_ptr<ProofForest> proofs;  // null without explanations
    Reason reason = ProofForest::kGiven;
  };

  uint32_t arity_of(const Node& n) const {
    if (n.child[0] == kNone) return 0;
    if (n.child[0] == kWide) return n.child[1];
    return n.child[1] == kNone ? 1 : 2;
  }
  std::span<const ClassId> children_of(const Node& n) const {
    if (n.child[0] == kWide) return {wide_.child.data() + n.link[0], n.child[1]};
    return {n.child, arity_of(n)};
  }
  NodeId first_node(ClassId cls) const {
    const ClassRecord& c = classes_[cls];
    return c.shown_round == fresh_.round ? c.shown_first : c.nodes_first;
  }
  static uint32_t head_bit(Head head) { return 1u << (head * 0x9e3779b1u >> 27); }
  static uint32_t family_bit(uint32_t family) { return 1u << (family * 0x85ebca6bu >> 27); }
  uint32_t& link(uint32_t slot) {
    return slot < kWideSlot ? nodes_[slot >> 1].link[slot & 1] : wide_.link[slot & ~kWideSlot];
  }
  uint32_t link(uint32_t slot) const { return const_cast<EGraph*>(this)->link(slot); }
  NodeId owner(uint32_t slot) const {
    return slot < kWideSlot ? slot >> 1 : wide_.owner[slot & ~kWideSlot];
  }

  uint32_t position(uint32_t slot) const {
    if (slot < kWideSlot) return slot & 1;
    uint32_t index = slot & ~kWideSlot;
    return index - nodes_[wide_.owner[index]].link[0];
  }

  static uint32_t hash_narrow(Head head, ClassId a, ClassId b) {
    uint64_t x = (uint64_t{a} << 32 | b) ^ head * 0x9e3779b97f4a7c15ULL;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 32;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return static_cast<uint32_t>(x >> 32);
  }
  static uint32_t hash_wide(Head head, std::span<const ClassId> children);
  uint32_t hash_of(const Node& n) const {
    return n.child[0] == kWide ? hash_wide(n.head, children_of(n))
                               : hash_narrow(n.head, n.child[0], n.child[1]);
  }
  size_t home(uint32_t hash) const { return hash >> table_.shift; }

  // The node with this key, or kNone and the free slot where it belongs. Missing children of a
  // narrow key are kNone.
  NodeId probe_narrow(uint32_t hash, Head head, ClassId a, ClassId b, size_t* slot) const {
    size_t mask = table_.slots.size() - 1;
    for (size_t i = home(hash);; i = (i + 1) & mask) {
      Slot s = table_.slots[i];
      if (s.node == kNone) {
        *slot = i;
        return kNone;
      }
      if (s.hash != hash) continue;
      const Node& n = nodes_[s.node];
      if (n.head == head && n.child[0] == a && n.child[1] == b) return s.node;
    }
  }
  NodeId probe_wide(uint32_t hash, Head head, std::span<const ClassId> children,
                    size_t* slot) const;
  NodeId probe(Head head, std::span<const ClassId> children) const;

  // add() for canonical children; the hash is that of the key.
  ClassId add_narrow(uint32_t hash, Head head, ClassId a, ClassId b) {
    reserve_slot();
    size_t slot;
    NodeId found = probe_narrow(hash, head, a, b, &slot);
    if (found != kNone) return find(nodes_[found].cls);
    return insert_narrow(slot, hash, head, a, b);
  }
  ClassId insert_narrow(size_t slot, uint32_t hash, Head head, ClassId a, ClassId b);
  ClassId insert_wide(size_t slot, uint32_t hash, Head head, std::span<const ClassId> children);
  ClassId finish_insert(NodeId node);
  void reserve_slot() {
    if (table_.used >= table_.max_used) rehash();
  }
  void rehash();
  void fill_slot(size_t slot, uint32_t hash, NodeId node) {
    table_.slots[slot] = {hash, node};
    ++table_.used;
  }
  void meet_head(Head head);
  void link_parent(ClassId child, uint32_t slot) {
    ClassRecord& c = classes_[child];
    link(slot) = c.parents_first;
    c.parents_first = slot;
    ++c.parent_count;
  }
  void touch(NodeId node);
  void compact_log(HeadInfo& info);

  bool merge(ClassId a, ClassId b, Reason reason);
  bool is_fresh(ClassId cls) const;
  void adopt(ClassId fresh, ClassId winner);
  void check_in_debug_builds();
  common::Status check_lists(ClassId cls) const;
  void fetch_records(size_t i) const;
  void fetch_parents(size_t i);
  void absorb(size_t i);
  void absorb_nodes(ClassId loser, ClassId winner);
  void absorb_parents(size_t i, ClassId winner);
  void rekey(NodeId node, ClassId walked);
  void kill(NodeId node, ClassId walked);
  void sweep(ClassId cls);
  void modify(ClassId cls);
  void data_changed(ClassId cls);
  void spread_data(ClassId cls);

  EGraphOptions options_;
  FlatArray<Node> nodes_;
  Wide wide_;
  FlatArray<ClassRecord> classes_;
  // By class, which heads and families it may have: lets a search skip classes at 4 bytes each.
  FlatArray<uint32_t> masks_;
  mutable UnionFind sets_;
  HashTable table_;
  Heads heads_;
  Counts counts_;
  uint32_t epoch_ = 1;
  Fresh fresh_;
  Fetched fetched_;
  Work work_;
  Why why_;
};

}  // namespace coordinator
