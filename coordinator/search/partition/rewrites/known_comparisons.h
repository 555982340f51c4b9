// Replaces comparisons of positions that are true of all elements, or false of all, by constants.
//
//   cumsum(arange(n) - cat([arange(n)[:1] - 1, arange(n)[:-1]]) != 1)  =>  0
//   0 == 0                                                             =>  true
//
// Models that pack several sequences into one tell them apart by positions that do not follow each
// other. Exported with positions that are counted, as most are, such a mask hides nothing; but it
// is a scan, which no rule sees through, and would be stored as a square of rows and keys.
#pragma once

#include "common/ir/hlir/graph.h"

namespace coordinator {

// The same graph with such comparisons replaced by constants, without the nodes that nothing needs
// any more. What data says is never looked at. Inputs, outputs and symbols stay as they are; bodies
// of loops, too.
common::Graph decide_comparisons(const common::Graph& graph);

}  // namespace coordinator
