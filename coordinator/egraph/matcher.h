// Finds the matches of a compiled rule among the nodes of one snapshot, all of them or only those
// that involve a node changed since the rule last looked.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/flat_array.h"
#include "coordinator/egraph/rule.h"

namespace coordinator {

// Where matches go, each `match_words()` words: root (its class, or with explanations the matched
// node, which find() takes to the same class), class variables, (head, node) pairs.
class MatchSink {
 public:
  virtual ~MatchSink() = default;
  // The buffer is full: take what is in it and clear it, or let it grow. May add nodes and merge
  // classes: the search goes on in its snapshot. False ends the search.
  virtual bool on_full() = 0;
  // Called now and then during long searches; false ends the search.
  virtual bool on_tick() = 0;

  FlatArray<uint32_t> words;
  size_t full_words = 0;
};

class Matcher {
 public:
  explicit Matcher(EGraph& graph) : graph_(graph) {}

  // Searches the nodes stamped at most `upto`; of their matches gives those with at least one node
  // stamped after `seen`, each once. The e-graph was clean when `upto` was its epoch and has been
  // added to since at most. False when the sink ended the search.
  bool search(const CompiledRule& rule, uint32_t seen, uint32_t upto, MatchSink& sink);

 private:
  struct Range {
    uint32_t low = 0;
    uint32_t high = 0;
  };

  size_t changed_since(const Atom& atom, uint32_t seen) const;
  size_t live(const Atom& atom) const;
  template <class F>
  bool for_each_head(const Atom& atom, F&& f) const;
  bool run_plan(const std::vector<Step>& plan);
  bool scan(size_t depth, const Atom& atom, bool any_new);
  bool scan_head(size_t depth, Head head, bool any_new);
  bool go(size_t depth, bool any_new);
  bool visit(size_t depth, NodeId node, bool any_new);
  bool bind(const Step& step, const Atom& atom, const EGraph::Node& node, NodeId id);
  bool emit();

  EGraph& graph_;
  const CompiledRule* rule_ = nullptr;
  const std::vector<Step>* plan_ = nullptr;
  MatchSink* sink_ = nullptr;
  uint32_t seen_ = 0;
  uint32_t upto_ = 0;
  bool require_new_ = false;
  uint32_t ticks_ = 0;
  NodeId root_ = kNone;         // that the first atom matched
  std::vector<uint32_t> bits_;  // by atom: its bit in EGraph::masks_
  std::vector<Range> ranges_;   // by atom: the stamps admitted
  std::vector<ClassId> registers_;
  std::vector<BoundHead> heads_;
  std::vector<ClassId> key_;
};

}  // namespace coordinator
