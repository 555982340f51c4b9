#include "coordinator/search/cost/gpu_nest_times.h"

#include <limits>

#include "common/cost/gpu_time.h"
#include "common/ir/nest/lower_structure.h"
#include "common/schedule/gpu_nest.h"

namespace coordinator {

GpuNestTimes::GpuNestTimes(const common::Graph& body, const common::GpuMachine& machine)
    : body_(common::lower_structure(body, common::Kept::kNone)), machine_(machine) {}

double GpuNestTimes::predict_ns(const common::Schedule& schedule) {
  auto [known, is_new] = known_.try_emplace(schedule, std::numeric_limits<double>::infinity());
  if (is_new) {
    auto nest = common::choose_gpu_nest(body_, schedule, machine_);
    if (nest.ok()) known->second = common::kGpuLaunchNs + nest->predicted_ns;
  }
  return known->second;
}

}  // namespace coordinator
