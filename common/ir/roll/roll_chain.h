// Chains of isomorphic blocks: what loop rolling folds, and how one is found from its blocks' ends.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

using Tuple = std::vector<NodeId>;  // the nodes at one place of the block, one per block

// What a block reads of the one before it; the first block reads `initial`. The place is inside the
// block, or itself a carried value: what is read of the block before the one before.
struct CarriedValue {
  NodeId initial = -1;
  Tuple place;
};

// What is carried besides the first value is stored and read between blocks too, so that of two
// cuts of the same repetition the one that carries less counts for more.
constexpr size_t discounted(size_t nodes, size_t carried) { return nodes * 4 / (3 + carried); }

struct Chain {
  size_t blocks = 0;
  std::vector<Tuple> interior;        // places inside the block, operands before users
  std::vector<CarriedValue> carried;  // at least one
  std::vector<Tuple> varying;         // per-iteration operands
  std::vector<NodeId> shared;         // invariants
  std::vector<NodeId> copied;         // free nodes copied into the body, operands before users
  // Nodes inside blocks that also something before the loop needs. They read nothing carried, so
  // they are computed there once more.
  std::vector<NodeId> hoisted;
  size_t saved() const { return discounted(interior.size() * (blocks - 1), carried.size()); }
};

// Walks back from `anchors`, the ends of at least two blocks in order, in lock step, as far as the
// blocks reach. Whatever else a block reads of the one before it is found on the way. Empty when
// the blocks differ, carry nothing, or read what cannot be computed ahead of them.
std::optional<Chain> find_chain(const Graph& graph, const Tuple& anchors);

// What a chain through two blocks would save, at a fraction of its price; longer chains save as
// much for each further block.
struct PairEstimate {
  size_t saved = 0;  // 0 when the two are not blocks
  size_t carried = 0;
  NodeId initial = -1;  // where the block before would end; -1 when the anchors are not carried
};
PairEstimate estimate_pair(const Graph& graph, NodeId first, NodeId second);

// Nodes that cost nothing and mean the same wherever they stand.
bool is_free(const Graph& graph, NodeId id);
// What comparisons of positions, conditions of them and choices between constants make of such
// nodes in a few steps: the mask of a tensor's first half, or the causal one that is added to
// scores.
bool compares_positions(const Graph& graph, NodeId id);

}  // namespace common
