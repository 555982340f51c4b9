// Which inputs a GPU's group of threads reads only after it has reduced something: the weights of a
// norm, or those of a product of a row that is normalised. Nothing they are read at depends on what
// is reduced, so that their loads can begin before.
#pragma once

#include <set>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/lowering/text/indices.h"

namespace common {

// An input's element that an element of some node is made of, without reductions, gathers or
// conditions between.
struct DirectRead {
  NodeId input = 0;
  Indices position;  // over the node's indices i0, i1, ...
};
// Of `node`: each input once a position.
std::vector<DirectRead> direct_reads(const Graph& body, NodeId node);

// Of those of `node` the ones whose input no reduction reads that `node` waits for; none where it
// waits for no reduction.
std::vector<DirectRead> late_reads(const Graph& body, NodeId node);

// A reduction that an element of a node is made of, without other reductions between.
struct DirectReduction {
  NodeId node = 0;
  Indices position;
};
std::vector<DirectReduction> direct_reductions(const Graph& body, NodeId node);

// All inputs that are read late by an output or by a reduction that an output is made of.
std::set<NodeId> late_inputs(const Graph& body);

// The node whose elements an output's loops compute: of a scatter, what it writes.
NodeId computed_node(const Graph& body, NodeId output);

}  // namespace common
