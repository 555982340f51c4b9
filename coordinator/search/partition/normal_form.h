// One of the ways to write a graph down, the same for graphs that differ only in ways that change
// no bit of what they compute.
//
//   y + x   =>   x + y          x + x     =>   x * 2        where(!c, a, b)   =>   where(c, b, a)
//   x + -y  =>   x - y          x / 2     =>   x * 0.5      narrow(widen(x))  =>   x
//
// What holds for real numbers only, such as another order of a sum's terms, is left as it is: a
// plan for one would not be a plan for the other under every numerics policy.
#pragma once

#include "common/ir/hlir/graph.h"

namespace coordinator {

// Inputs, outputs and symbols stay as they are; bodies of loops, too. A NaN may get another
// payload.
common::Graph normal_form(const common::Graph& graph);

}  // namespace coordinator
