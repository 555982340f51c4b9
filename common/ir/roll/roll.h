// Loop rolling: folds blocks that a model repeats (transformer layers) into kLoop nodes.
#pragma once

#include "common/ir/hlir/graph.h"

namespace common {

// Finds chains of isomorphic blocks in which each block reads results of the one before it, and
// folds every chain of at least two into a loop, the one that saves most first (loop bodies are
// rolled in turn, so that a pattern within a pattern nests). Weights, caches and masks that differ
// from block to block become per-iteration operands, values that all blocks share become
// invariants, constants are copied into the body, and results that are read outside their block
// become per-iteration outputs. Deterministic. A graph without repetitions comes back as it is.
Graph roll(const Graph& graph);

// The inverse: every loop written out.
Graph unroll(const Graph& graph);

}  // namespace common
