// The canonical 256-bit identity of a graph.
#pragma once

#include "common/base/digest.h"
#include "common/ir/hlir/graph.h"

namespace common {

// Independent of node order, of names, of dead nodes and of how symbols are numbered; any shape,
// dtype, range, operator, parameter, constant or input/output order changes it.
// A Merkle hash over the nodes that the outputs reach (BLAKE2b).
Digest graph_hash(const Graph& graph);

// Renumbers nodes (depth first from the outputs) and symbols (by first appearance in the inputs),
// shares equal nodes and drops names: graphs of equal hash become equal values.
Graph canonical(const Graph& graph);

// The canonical graph of the same computation for fewer sizes: `ranges[k]` lies within the range of
// s<k>, and a symbol whose range has one value becomes that number. Inputs and outputs stay in
// place; the hash is another one.
Graph narrowed(const Graph& graph, const std::vector<SymbolRange>& ranges);

// A canonical graph without the symbols it does not use, and where each of its symbols came from.
struct Canonical {
  Graph graph;
  std::vector<int> symbols;  // symbols[k] is the original's number of the result's s<k>
};
Canonical canonical_without_unused_symbols(const Graph& graph);

}  // namespace common
