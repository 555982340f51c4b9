// Runs a plan on synthetic inputs with the profiler: what `lfarm plan score` judges.
#pragma once

#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "clients/runtime/farm/pulled_plan.h"
#include "clients/score/score.h"
#include "common/base/result.h"
#include "common/runtime/device/device.h"

namespace clients {

// The values of the plan's symbols: those that `text` ("s0=4,s1=128") gives, and for others what
// searches measure with. kInvalidInput when a value is outside its symbol's range.
common::Result<std::vector<int64_t>> sizes_of(const common::Plan& plan, const std::string& text);
// "s0=4,s1=128"; empty without symbols.
std::string sizes_text(const std::vector<int64_t>& sizes);

// The plan's run on the device, without what its kernels compute: medians over half a second of
// runs as a whole, and over as long again of runs that time each kernel for itself. `model`: whose
// weights are used; null: random ones, and zeros for what may be a position. kInvalidInput when the
// plan is for another device.
common::Result<PlanRun> profile_plan(const PulledPlan& plan, const Model* model,
                                     const std::vector<int64_t>& sizes, common::Device& device);

// Fills in what the calls compute, from the state directory's own store. kInvalidInput, and nothing
// is filled in, where the store does not know (a plan that came from elsewhere): the library's
// products are counted nevertheless.
common::Status count_operations(const PulledPlan& plan, const std::string& state,
                                const std::vector<int64_t>& sizes, PlanRun* run);

}  // namespace clients
