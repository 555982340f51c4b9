// Which reductions of a body may be computed in the same loops.
#pragma once

#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// Whether a reduction can join those of `group`, each of which can be computed in the first one's
// loops: equal axes of equal shapes, no dependence either way, and none gives a position.
bool can_fuse(const Graph& body, const std::vector<NodeId>& group, NodeId other);

// Whether one loop can walk all of the reduction's axes, of which there are several.
bool has_adjacent_axes(const ReduceAttr& reduction);

}  // namespace common
