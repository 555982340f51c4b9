#include "tests/bench/gpu_static/schedule_spread.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/cost/kernels/gpu_nest_times.h"

namespace bench {
namespace {

// The default, and each value of each parameter with the others by default: what all of them
// together would take minutes to predict.
std::vector<common::Schedule> schedules_of(common::Template form, common::Machine machine) {
  std::vector<common::Schedule> schedules{{}};
  for (const common::ScheduleChoice& choice : common::schedule_parameters(form)) {
    if (!choice.is_on(machine)) continue;
    for (int64_t value : choice.values) {
      if (value != choice.values[0]) schedules.push_back({{std::string(choice.name), value}});
    }
  }
  return schedules;
}

}  // namespace

ScheduleSpread schedule_spread(const common::Kernel& kernel, common::Machine machine,
                               const common::GpuMachine& product) {
  ScheduleSpread spread;
  if (kernel.form != common::Template::kLoops) return spread;
  common::GpuNestTimes times(kernel.form, kernel.body, product);
  double best = 0, worst = 0;
  for (const common::Schedule& schedule : schedules_of(kernel.form, machine)) {
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
