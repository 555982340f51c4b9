// The loops that a kernel gets on a GPU where nobody said otherwise.
#pragma once

#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/cost/gpu_machine.h"
#include "common/cost/gpu_time.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/llir.h"

namespace common {

struct TimedNest {
  LoopNest nest;
  double predicted_ns = 0;            // without the launch, over priced_sizes() of the symbols
  std::vector<GpuKernelFacts> facts;  // that this is predicted from, one for each of them
};

// Nanoseconds to compare nests by: what such facts at `sizes` are predicted to take, and of those
// that the same limit holds back less for the one that does less besides.
double nest_preference_ns(const std::vector<GpuKernelFacts>& facts,
                          const std::vector<WeightedSizes>& sizes, const GpuMachine& machine);
// Without such preferences: nanoseconds without the launch.
double nest_ns(const std::vector<GpuKernelFacts>& facts, const std::vector<WeightedSizes>& sizes,
               const GpuMachine& machine);

// What nests of one body on one machine were found to take, for other schedules that try the same
// ones. Not thread-safe.
class GpuNestTrials {
 public:
  GpuNestTrials();
  ~GpuNestTrials();
  GpuNestTrials(const GpuNestTrials&) = delete;
  GpuNestTrials& operator=(const GpuNestTrials&) = delete;

  struct Known;
  Known& known() { return *known_; }

 private:
  std::unique_ptr<Known> known_;
};

// Tries groups of threads and transformations of one loop an axis, and keeps what is predicted to
// take least on such a machine. `body` has no structured operations; of the schedule, kLoops'
// parameters count. kUnsupported when the code grows out of bounds. Blocks share a reduction only
// where `may_split`.
Result<TimedNest> choose_gpu_nest(const Graph& body, const Schedule& schedule,
                                  const GpuMachine& machine, bool may_split = true);
// The same, with what was found of the body and the machine before.
Result<TimedNest> choose_gpu_nest(const Graph& body, const Schedule& schedule,
                                  const GpuMachine& machine, GpuNestTrials& trials,
                                  bool may_split = true);

}  // namespace common
