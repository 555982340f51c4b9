// Facts about e-classes (shape, dtype, range) that the e-graph keeps up to date: the engine calls,
// the analysis stores, indexed by class id.
#pragma once

#include <type_traits>
#include <vector>

#include "coordinator/egraph/ids.h"

namespace coordinator {

class EGraph;

// Which of the two merged classes learned something: its parents are looked at again.
struct MergeEffect {
  bool winner_changed = false;
  bool loser_changed = false;
};

// All calls come in a deterministic order. Facts must only ever grow in a lattice of finite height,
// else rebuild() does not end. Facts that don't always hold must not be stored here.
class Analysis {
 public:
  virtual ~Analysis() = default;
  // A class was made of one node. Class ids come as 0, 1, 2, ...: append its facts.
  virtual void make_class(const EGraph& graph, ClassId cls, NodeId node) = 0;
  // A child of `node` learned something: join what the node says now into its class `cls`.
  // True when the facts of `cls` changed.
  virtual bool update(const EGraph& graph, ClassId cls, NodeId node) = 0;
  // `loser` joins `winner`: join its facts into the winner's.
  virtual MergeEffect merge(const EGraph& graph, ClassId winner, ClassId loser) = 0;
  // Called after the facts of a class were made or changed; may add nodes and merge classes
  // (constant folding), never rebuild.
  virtual void modify(EGraph& graph, ClassId cls) {
    (void)graph;
    (void)cls;
  }
};

// An analysis whose facts are a value type: two functions are left to write.
template <class Data>
class TypedAnalysis : public Analysis {
  static_assert(!std::is_same_v<Data, bool>, "std::vector<bool> has no references: use uint8_t");

 public:
  // What a node alone says, from the facts of its children.
  virtual Data make(const EGraph& graph, NodeId node) const = 0;
  // Joins `from` into `into`; true when `into` changed. Must be commutative and idempotent.
  virtual bool join(Data& into, const Data& from) const = 0;

  // `cls` must be canonical.
  const Data& operator[](ClassId cls) const { return data_[cls]; }

  void make_class(const EGraph& graph, ClassId cls, NodeId node) override {
    (void)cls;
    data_.push_back(make(graph, node));
  }
  bool update(const EGraph& graph, ClassId cls, NodeId node) override {
    return join(data_[cls], make(graph, node));
  }
  MergeEffect merge(const EGraph& graph, ClassId winner, ClassId loser) override {
    (void)graph;
    MergeEffect effect;
    effect.winner_changed = join(data_[winner], data_[loser]);
    effect.loser_changed = join(data_[loser], data_[winner]);
    return effect;
  }

 private:
  std::vector<Data> data_;
};

}  // namespace coordinator
