// What a kernel takes on a GPU, from its profile: the facts that common/cost turns into a time.
#pragma once

#include "common/cost/gpu_time.h"
#include "common/ir/llir/llir.h"
#include "coordinator/search/cost/kernel_profile.h"

namespace coordinator {

// Of one launch whose schedule is the default: accesses are wide, and the grid fills the device as
// far as there is work for its threads.
common::GpuKernelFacts gpu_facts(common::Template form, const KernelProfile& profile);

// Nanoseconds of one launch on that machine, the launch itself included.
double gpu_predict_ns(common::Template form, const KernelProfile& profile,
                      const common::GpuMachine& machine);

}  // namespace coordinator
