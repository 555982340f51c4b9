#include "coordinator/search/partition/partition.h"

#include "common/ir/roll/roll.h"
#include "coordinator/search/partition/known_comparisons.h"
#include "coordinator/search/partition/layout_assignment.h"

namespace coordinator {

Partition partition(const common::Graph& graph, common::Machine machine,
                    const std::function<void(const char* pass)>& lap) {
  Partition made;
  made.laid_out = assign_layouts(decide_comparisons(graph), machine);
  lap("layouts");
  made.rolled = common::roll(made.laid_out);
  lap("roll");
  made.cut = cut_into_regions(made.rolled);
  lap("cut");
  return made;
}

}  // namespace coordinator
