// Finds float32 values that bfloat16 holds as they are, so that storing them rounds nothing.
#pragma once

#include "common/ir/hlir/graph.h"

namespace common {

// True only where every element is such a value: a constant, or what was bfloat16, boolean or an
// integer of 8 bits, and was chosen among, moved or given another sign since. NaN counts, with the
// upper half of its bits.
bool is_exact_bfloat16(const Graph& body, NodeId node);

}  // namespace common
