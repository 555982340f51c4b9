// A contraction that a kernel computes only where another way to the same value has overflowed:
//
//   select(isnan(y) or isinf(y), contraction, y)
//
// Generators test blocks of y first and compute nothing where all of it is finite, as it nearly
// always is; predictions count nothing for it.
#pragma once

#include <optional>

#include "common/ir/hlir/graph.h"

namespace common {

struct FallbackForm {
  NodeId condition = -1;  // isnan(y) or isinf(y)
  NodeId choice = -1;     // the select, of the contraction's shape
};

// Empty where the contraction has another use, or is an output.
std::optional<FallbackForm> fallback_form(const Graph& graph, NodeId contraction);

}  // namespace common
