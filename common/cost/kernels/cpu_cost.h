// What a kernel takes on a processor, from its profile and its schedule.
#pragma once

#include "common/cost/kernels/device_terms.h"
#include "common/cost/kernels/kernel_profile.h"
#include "common/cost/kernels/schedule_values.h"

namespace common {

// Nanoseconds of one launch. `terms` are those of a processor.
double cpu_predict_ns(Template form, const KernelProfile& profile, const ScheduleValues& values,
                      const DeviceTerms& terms);

}  // namespace common
