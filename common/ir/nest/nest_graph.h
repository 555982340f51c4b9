// A nest as a graph whose axes are the nest's loops: the reference interpreter executes it, so that
// a nest is held against its body without a compiler (interpret_nest()).
#pragma once

#include "common/ir/nest/loop_nest.h"

namespace common {

// The body with what loops compute of each output: of a scatter, its updates.
Graph looped_body(const Graph& body);

// Of a nest that verify() takes for `body`, which has n outputs. The graph's first n outputs are
// the values of the looped body's outputs in the order in which loops visit them, blocks of
// accumulators, rows at once and squares being loops of their own; output n + k says at which flat
// position each value of output k belongs, or -1 for a step beyond the end. Reductions that a group
// of threads shares are sums of the threads' parts.
Graph nest_graph(const Graph& body, const LoopNest& nest);

}  // namespace common
