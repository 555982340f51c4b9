// Outputs of one shape share one nest of loops.
#pragma once

#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

struct OutputGroup {
  Shape shape;
  std::vector<size_t> outputs;
};

// The elements that loops compute of an output: all, or a scatter's updates.
const Shape& looped_shape(const Graph& body, size_t output);
std::vector<OutputGroup> group_outputs(const Graph& body);
// How many leading axes all groups agree on.
size_t shared_axes(const std::vector<OutputGroup>& groups);

}  // namespace common
