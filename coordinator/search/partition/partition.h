// The passes that take a graph apart before anything is searched.
#pragma once

#include <functional>

#include "common/ir/llir/llir.h"
#include "coordinator/search/partition/regions.h"

namespace coordinator {

// What each pass made of the graph.
struct Partition {
  common::Graph laid_out;  // rewrites/: needed_positions.h, known_comparisons.h, known_gathers.h,
                           // layout_assignment.h, split_axes.h
  common::Graph rolled;    // common/ir/roll/roll.h
  Cut cut;                 // regions.h
};

// `lap` is told a pass's name when it is over: "layouts", "roll", "cut".
Partition partition(
    const common::Graph& graph, common::Machine machine,
    const std::function<void(const char* pass)>& lap = [](const char*) {});

}  // namespace coordinator
