// What a scatter's coordinates say of where its updates go.
#pragma once

#include <cstddef>
#include <optional>

#include "common/ir/hlir/graph.h"

namespace common {

// The axis of the updates that runs along axis `base` of what they are written into, from end to
// end, and decides nothing else.
std::optional<size_t> aligned_update_axis(const Graph& body, const Node& scatter, size_t base);

// Whether no element is updated twice, whatever positions the scatter reads: every axis along which
// there are several updates is aligned with one of the base.
bool has_distinct_places(const Graph& body, const Node& scatter);

}  // namespace common
