#include "coordinator/farm/demand.h"

#include <algorithm>
#include <map>

namespace coordinator::farm {

std::vector<Demand> demands(const std::vector<Appetite>& appetites,
                            const std::vector<Supply>& supplies) {
  struct Sum {
    int64_t tasks = 0, workers = 0, slots = 0;
  };
  std::map<std::string, Sum> sums;
  for (const Appetite& appetite : appetites) {
    sums[appetite.target].tasks += std::max<int64_t>(0, appetite.tasks);
  }
  for (const Supply& supply : supplies) {
    sums[supply.target].workers += supply.workers;
    sums[supply.target].slots += supply.slots;
  }
  std::vector<Demand> out;
  for (const auto& [target, sum] : sums) {
    // A worker that is held back offers no slot; what the others offer says how large one is.
    bool is_known = sum.workers > 0 && sum.slots >= sum.workers;
    int64_t slots = is_known ? sum.slots / sum.workers : kUsualSlots;
    out.push_back({target, sum.tasks, sum.workers, (sum.tasks + slots - 1) / slots, 0});
  }
  return out;
}

Demand sum_of(const std::vector<Demand>& demands, std::string_view prefix) {
  Demand sum;
  sum.target = prefix;
  for (const Demand& demand : demands) {
    if (!std::string_view(demand.target).starts_with(prefix)) continue;
    sum.queue_depth += demand.queue_depth;
    sum.workers += demand.workers;
    sum.wanted_workers += demand.wanted_workers;
    sum.tasks_waiting += demand.tasks_waiting;
  }
  return sum;
}

}  // namespace coordinator::farm
