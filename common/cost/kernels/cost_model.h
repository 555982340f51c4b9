// What a kernel should cost before it was ever measured: bytes, operations, launches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/cost/gpu_machine.h"
#include "common/cost/kernels/device_terms.h"
#include "common/cost/kernels/gpu_cost.h"
#include "common/cost/kernels/kernel_profile.h"
#include "common/cost/kernels/schedule_values.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/llir.h"
#include "common/plan/io_profile.h"
#include "common/plan/plan.h"

namespace common {

// What a byte that a plan computes from weights and keeps is charged in a run's time, so that among
// equally fast plans the one that holds less wins: far less than reading it.
inline constexpr double kHeldByteNs = 1e-5;

// Nanoseconds of one launch of a kernel over its profiles, one at least, whose weights sum to 1.
double predict_ns(Template form, std::span<const WeightedProfile> profiles,
                  const ScheduleValues& values, const DeviceTerms& terms);

// Nanoseconds of one launch. Only the ranking matters: a search scales predictions by what it has
// measured, and a measurement always outranks a prediction. Loops on a GPU are predicted over the
// priced_sizes() of the body's symbols, as their nests are chosen, and not at `symbols`.
double predict_ns(const Kernel& kernel, const std::vector<int64_t>& symbols,
                  const DeviceTerms& terms);

// What one run of the whole program takes beside its launches (see IoProfile, whose
// launches and device traffic are parts of the kernels' predictions).
double program_overhead_ns(const Program& program, const std::vector<int64_t>& sizes,
                           const DeviceTerms& terms);

// The sizes of a call's kernel symbols.
std::vector<int64_t> call_symbols(const Call& call, const std::vector<int64_t>& sizes);

}  // namespace common
