// How much a kernel's predicted time depends on its schedule.
#pragma once

#include <cstdint>

#include "common/cost/gpu_machine.h"
#include "common/ir/llir/llir.h"

namespace bench {

struct ScheduleSpread {
  int64_t schedules = 0;  // of which code comes; 0: the kernel is not all loops
  double ratio = 0;       // the slowest over the fastest
};

// Over the values of each parameter that loops have on such a machine, with the others by default,
// as the search's cost model predicts them.
ScheduleSpread schedule_spread(const common::Kernel& kernel, common::Machine machine,
                               const common::GpuMachine& product);

}  // namespace bench
