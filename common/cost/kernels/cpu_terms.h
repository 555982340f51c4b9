// What work takes on processors: one table a kind of vector unit.
#pragma once

#include "common/cost/kernels/device_terms.h"
#include "common/plan/plan.h"

namespace common {

// Those of the target's vectors; of "cpu" and other names, of AVX-512.
const DeviceTerms& cpu_terms(const Target& target);

}  // namespace common
