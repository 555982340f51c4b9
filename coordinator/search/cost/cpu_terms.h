// What work takes on processors: one table a kind of vector unit.
#pragma once

#include "common/plan/plan.h"
#include "coordinator/search/cost/cost_model.h"

namespace coordinator {

// Those of the target's vectors; of "cpu" and other names, of AVX-512.
const DeviceTerms& cpu_terms(const common::Target& target);

}  // namespace coordinator
