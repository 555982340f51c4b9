// Where an innermost loop is cut: at the positions where choices of a concatenation change, and
// where the views of its parts and of images with borders begin and end.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/lowering/text/indices.h"

namespace common {

// Where [0, extent) of loop index `index` is cut so that within each part what the values of
// `outputs` at `position` ask about the index is decided: choices by position, and whether views
// are valid. The parts of a concatenation along the loop become loops of their own, which read
// their own input. In order, both ends left out; empty where nothing is asked, or too much.
std::vector<int64_t> loop_cuts(const Graph& body, const std::vector<NodeId>& outputs,
                               const Indices& position, int index, int64_t extent);

}  // namespace common
