// Why classes are equal: a forest over the e-nodes as they were made, one edge for each union.
//
// A path between two nodes proves them equal (Nieuwenhuis and Oliveras, "Proof-producing congruence
// closure", RTA 2005). A congruence between two nodes rests on equalities of their children, which
// were all in the forest before it, so that following them ends.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/egraph/flat_array.h"
#include "coordinator/egraph/ids.h"

namespace coordinator {

// What made a node or a union: a rule or another cause, by number.
using Reason = uint32_t;

// A node's number and the number of the class that was made for it are the same; both name the
// forest's vertices.
class ProofForest {
 public:
  static constexpr Reason kGiven = 0;  // made from outside, by no rule
  static constexpr Reason kCongruence = 1;
  static constexpr Reason kAnalysis = 2;

  ProofForest();

  // The number of a name; the same for equal names.
  Reason reason_named(std::string_view name);
  const std::string& reason_name(Reason reason) const { return names_[reason]; }
  size_t reason_count() const { return names_.size(); }

  // The next node, with the children it was made with.
  void make(Head head, std::span<const ClassId> children, Reason reason);
  // The two are in different trees; the work is the depth of `from` in its own.
  void unite(NodeId from, NodeId to, Reason reason);

  // As the node was made; what it is congruent to now may have other children.
  Head head(NodeId node) const { return vertices_[node].head; }
  std::span<const ClassId> children(NodeId node) const {
    return {children_.data() + vertices_[node].children_begin, vertices_[node].arity};
  }
  Reason origin(NodeId node) const { return vertices_[node].origin; }
  struct Step {
    NodeId from;
    NodeId to;
    Reason reason;
  };
  // From `a` to `b`, which are equal.
  std::vector<Step> path(NodeId a, NodeId b) const;
  // The root of a vertex's tree: equal exactly for equal classes.
  NodeId root(NodeId node) const;
  // The path from `a` to `b`, then what its congruences rest on, each equality once:
  //   c4 = c9:
  //     c4 (* c1 c2) = c9 (* c1 c3) by congruence
  //   c2 = c3:
  //     c2 (+ c0 c5) = c3 (+ c5 c0) by commute
  std::string explain(NodeId a, NodeId b, const std::function<std::string(Head)>& head_name) const;
  size_t bytes() const { return vertices_.bytes() + children_.bytes(); }

 private:
  struct Vertex {
    NodeId up;  // towards the root; itself at the root
    Reason up_reason;
    Reason origin;
    Head head;
    uint32_t children_begin;
    uint32_t arity;
  };
  FlatArray<Vertex> vertices_;
  FlatArray<ClassId> children_;
  std::vector<std::string> names_;
};

}  // namespace coordinator
