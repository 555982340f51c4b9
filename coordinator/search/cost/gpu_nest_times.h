// What a kernel of loops, or several in one launch, takes on a GPU, by the nests that its schedules
// become.
#pragma once

#include <map>
#include <vector>

#include "common/cost/gpu_machine.h"
#include "common/cost/gpu_time.h"
#include "common/ir/llir/llir.h"

namespace coordinator {

// Whether this is how the kernel is predicted.
bool has_nest_times(const common::Kernel& kernel);

// One kernel's times, each predicted when it is first asked for. Not thread-safe.
class GpuNestTimes {
 public:
  // `machine` outlives this.
  GpuNestTimes(common::Template form, const common::Graph& body, const common::GpuMachine& machine);
  // Nanoseconds of one launch over the priced_sizes() of the body's symbols, with the launch;
  // infinity where no code comes of the schedule.
  double predict_ns(const common::Schedule& schedule);

 private:
  double launch_ns(const std::vector<common::GpuKernelFacts>& facts) const;
  double loops_ns(const common::Schedule& schedule) const;
  double parts_ns() const;

  common::Kernel kernel_;
  common::Graph body_;  // of loops: without structured operations
  const common::GpuMachine& machine_;
  std::map<common::Schedule, double> known_;
};

}  // namespace coordinator
