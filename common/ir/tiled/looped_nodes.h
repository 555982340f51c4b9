// Nodes of a kernel's body as the loops of a template compute them, in a graph whose axes are the
// loops: the reference interpreter executes it, so that a tiling is held against its kernel without
// a compiler (interpret_loops()).
#pragma once

#include <string>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// What loops give of a node.
struct VisitedNode {
  NodeId values = 0, places = 0;
};

struct LoopedNodes {
  Graph body;                 // gives what the kernel gives
  std::vector<NodeId> nodes;  // of the body, none of which depends on another
  // Takes the body's inputs and gives two outputs for each node in turn: its values in the order in
  // which the loops visit them, and the flat position of each, or -1 for a step beyond the end.
  Graph loops;
  std::string text;  // the loops in one line
};

// `loops` is the body with the nodes of the loops appended; what they do not need is dropped.
// `visited` are in the order of `nodes`.
LoopedNodes looped_nodes(Graph body, std::vector<NodeId> nodes, Graph loops,
                         const std::vector<VisitedNode>& visited, std::string text);

// The body with the values of the nodes as its last inputs, in the dtypes that the loops give.
Graph after_loops(const LoopedNodes& looped);

}  // namespace common
