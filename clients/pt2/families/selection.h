// Elements that a mask selects, for programs that state how many they are.
#pragma once

#include <vector>

#include "clients/pt2/aten/translate_math.h"

namespace clients {

// The size that the program states for an axis of a result; refuses one that only the data knows.
int64_t stated_size(Context& c, int axis, size_t k = 0);
// The places of nonzero elements along each axis in row-major order, vectors of `size`; where there
// are fewer the rest is `fill`, and what goes beyond is left out.
std::vector<NodeId> places_of(Context& c, NodeId mask, int64_t size, int64_t fill);
// The same where a run reports an error unless there are `size` of them.
std::vector<NodeId> stated_places(Context& c, NodeId mask, int64_t size);

}  // namespace clients
