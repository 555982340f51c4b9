// What a kernel of loops takes on a GPU, by the nests that its schedules become.
#pragma once

#include <map>
#include <vector>

#include "common/cost/gpu_machine.h"
#include "common/ir/llir/llir.h"

namespace coordinator {

// One body's times, each predicted when it is first asked for. Not thread-safe.
class GpuNestTimes {
 public:
  // `machine` outlives this.
  GpuNestTimes(const common::Graph& body, const common::GpuMachine& machine);
  // Nanoseconds of one launch, with the launch; infinity where no code comes of the schedule.
  double predict_ns(const common::Schedule& schedule);

 private:
  common::Graph body_;  // without structured operations
  const common::GpuMachine& machine_;
  std::map<common::Schedule, double> known_;
};

}  // namespace coordinator
