// Choosing one node per class: the cheapest acyclic program, or a given choice made acyclic.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/ids.h"

namespace coordinator {

// The cost of a node alone, at least 0; infinity forbids it. A program costs the sum over its tree:
// what is shared counts each time.
using NodeCost = std::function<double(NodeId)>;

// The cheapest node of every class. Following best nodes always ends: a node's children have a
// smaller rank than its class.
struct BestNodes {
  std::vector<NodeId> node;    // by class id; kNone for classes without a finite program
  std::vector<double> cost;    // by class id; infinity where node is kNone
  std::vector<uint32_t> rank;  // by class id; kNone where node is kNone
};

// Knuth's generalisation of Dijkstra's algorithm over dense arrays, O(n log n). Among nodes of
// equal cost the one whose children were settled first wins. The e-graph must be clean.
BestNodes best_nodes(const EGraph& graph, const NodeCost& cost);

// A program: the classes that the roots need, children before parents, and the node of each.
struct Selection {
  std::vector<ClassId> classes;
  std::vector<NodeId> nodes;
};

// Turns per-class preferences into acyclic programs. Keeps scratch arrays, so that a call costs
// what is reachable from the roots, not the size of the e-graph. Not thread-safe.
class Decoder {
 public:
  // Borrows both; the e-graph must not change while the decoder is used.
  Decoder(const EGraph& graph, const BestNodes& best);

  // `preference` gives a live node of the class (canonical id) or kNone. A preferred node is used
  // unless it needs a class without a program or closes a cycle; the class on the cycle that was
  // reached last then takes its best node, for good, so that this always ends. The same
  // preferences and roots give the same selection. False when a root has no program.
  bool decode(std::span<const ClassId> roots, const std::function<NodeId(ClassId)>& preference,
              Selection& out);

 private:
  enum class State : uint8_t { kNew, kOpen, kDone };
  struct Entry {
    uint32_t round = 0;
    State state = State::kNew;
    bool fixed = false;  // fell back to the best node
    NodeId node = kNone;
  };
  struct Frame {
    ClassId cls;
    uint32_t next_child;
  };

  Entry& entry(ClassId cls);
  void open(ClassId cls, const std::function<NodeId(ClassId)>& preference);
  bool is_usable(ClassId cls, NodeId node) const;
  void break_cycle(ClassId closes_at);

  const EGraph& graph_;
  const BestNodes& best_;
  std::vector<Entry> entries_;
  std::vector<Frame> stack_;
  uint32_t round_ = 0;
};

}  // namespace coordinator
