#include "tests/bench/gpu_static/schedule_spread.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "coordinator/search/cost/gpu_nest_times.h"

namespace bench {
namespace {

std::vector<common::Schedule> all_schedules(common::Template form, common::Machine machine) {
  std::vector<common::Schedule> schedules{{}};
  for (const common::ScheduleChoice& choice : common::schedule_parameters(form)) {
    if (!choice.is_on(machine)) continue;
    std::vector<common::Schedule> longer;
    for (const common::Schedule& schedule : schedules) {
      for (int64_t value : choice.values) {
        longer.push_back(schedule);
        // Defaults are left out.
        if (value == choice.values[0]) continue;
        longer.back().push_back({std::string(choice.name), value});
        std::sort(longer.back().begin(), longer.back().end());
      }
    }
    schedules = std::move(longer);
  }
  return schedules;
}

}  // namespace

ScheduleSpread schedule_spread(const common::Kernel& kernel, common::Machine machine) {
  ScheduleSpread spread;
  if (kernel.form != common::Template::kLoops) return spread;
  coordinator::GpuNestTimes times(kernel.body);
  double best = 0, worst = 0;
  for (const common::Schedule& schedule : all_schedules(kernel.form, machine)) {
    double ns = times.predict_ns(schedule);
    if (!std::isfinite(ns)) continue;
    best = spread.schedules == 0 ? ns : std::min(best, ns);
    worst = std::max(worst, ns);
    ++spread.schedules;
  }
  if (best > 0) spread.ratio = worst / best;
  return spread;
}

}  // namespace bench
