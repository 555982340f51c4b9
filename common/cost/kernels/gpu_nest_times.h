// What a kernel of loops, or several in one launch, takes on a GPU, by the nests that its schedules
// become.
#pragma once

#include <map>
#include <vector>

#include "common/cost/gpu_machine.h"
#include "common/cost/gpu_time.h"
#include "common/ir/llir/llir.h"

namespace common {

// Whether this is how the kernel is predicted.
bool has_nest_times(const Kernel& kernel);

// One kernel's times, each predicted when it is first asked for. Not thread-safe.
class GpuNestTimes {
 public:
  // `machine` outlives this.
  GpuNestTimes(Template form, const Graph& body, const GpuMachine& machine);
  // Nanoseconds of one launch over the priced_sizes() of the body's symbols, with the launch;
  // infinity where no code comes of the schedule. Of others than the default a little more, so that
  // they are taken where they gain.
  double predict_ns(const Schedule& schedule);

 private:
  double launch_ns(const std::vector<GpuKernelFacts>& facts) const;
  double loops_ns(const Schedule& schedule) const;
  double parts_ns() const;

  Kernel kernel_;
  Graph body_;  // of loops: without structured operations
  const GpuMachine& machine_;
  std::map<Schedule, double> known_;
};

}  // namespace common
