// Which inputs a GPU's group of threads reads only after it has reduced something: the weights of a
// norm, or those of a product of a row that is normalised. Nothing they are read at depends on what
// is reduced, so that their loads can begin before.
#pragma once

#include <set>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/lowering/text/indices.h"

namespace common {

// An element of an input or of a reduction that an element of another node is made of, without
// reductions, gathers or conditions between.
struct DirectUse {
  NodeId node = 0;
  Indices position;  // over the other node's indices i0, i1, ...
};

// The inputs that `node` is made of, each once a position, but for those that a reduction reads for
// which `node` waits; none where it waits for no reduction.
std::vector<DirectUse> late_reads(const Graph& body, NodeId node);

// The reductions that `node` is made of.
std::vector<DirectUse> direct_reductions(const Graph& body, NodeId node);

// All inputs that are read late by an output or by a reduction that an output is made of.
std::set<NodeId> late_inputs(const Graph& body);

// The node whose elements an output's loops compute: of a scatter, what it writes.
NodeId computed_node(const Graph& body, NodeId output);

}  // namespace common
