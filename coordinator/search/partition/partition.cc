#include "coordinator/search/partition/partition.h"

#include "common/ir/roll/roll.h"
#include "coordinator/search/partition/rewrites/known_comparisons.h"
#include "coordinator/search/partition/rewrites/known_gathers.h"
#include "coordinator/search/partition/rewrites/layout_assignment.h"
#include "coordinator/search/partition/rewrites/needed_positions.h"
#include "coordinator/search/partition/rewrites/split_axes.h"

namespace coordinator {

Partition partition(const common::Graph& graph, common::Machine machine,
                    const std::function<void(const char* pass)>& lap) {
  Partition made;
  made.laid_out = assign_layouts(
      replace_known_gathers(decide_comparisons(compute_needed_positions(graph))), machine);
  if (!common::is_gpu(machine)) made.laid_out = split_merged_axes(made.laid_out);
  lap("layouts");
  made.rolled = common::roll(made.laid_out);
  lap("roll");
  made.cut = cut_into_regions(made.rolled);
  lap("cut");
  return made;
}

}  // namespace coordinator
