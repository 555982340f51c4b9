// The loops that a walk of a kernel's body opens, and which values it has met in them.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

using LoopOrder = std::vector<size_t>;  // loops from outside in

class ProfileLoops {
 public:
  // symbols[k] is the value of s<k>; it outlives this.
  explicit ProfileLoops(const std::vector<int64_t>& symbols) : symbols_(symbols) {}

  // Opens a loop for each axis of more than one element. Returns the axes' indices.
  std::vector<Expr> open(const Shape& shape);
  size_t count() const { return extents_.size(); }
  double extent(size_t loop) const { return extents_[loop]; }

  // Which loops the indices depend on, by loop.
  std::vector<char> uses(const std::vector<Expr>& indices) const;

  // How many of the order's loops are around a value, and how often it is computed.
  struct Place {
    size_t depth = 0;
    double times = 1;
    bool is_innermost = false;
  };
  Place place(const std::vector<Expr>& indices, const LoopOrder& order) const;

 private:
  const std::vector<int64_t>& symbols_;
  std::vector<double> extents_;
};

// Those that are indices themselves.
LoopOrder order_of(const std::vector<Expr>& indices);

// How often each value was computed, in each nest of loops.
class ComputedValues {
 public:
  // `nest` is the outermost loop; 0 where all outputs share it.
  void enter(size_t nest) { nest_ = nest; }
  // Whether the value was computed as often already in this loop, and is kept; else it is from now
  // on. `loop` counts from 1; 0 is outside of innermost loops.
  bool is_kept(NodeId id, size_t loop, double times);
  // Whether it was computed as often already in any of the nest's loops; from now on it is.
  bool was_computed(NodeId id, double times);

 private:
  size_t nest_ = 0;
  std::map<std::tuple<size_t, NodeId, size_t>, double> by_loop_;
  std::map<std::pair<size_t, NodeId>, double> in_nest_;
};

}  // namespace common
