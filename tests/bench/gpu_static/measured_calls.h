// What a program's calls take on the GPU that is there, beside what is predicted of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "common/wire/task.h"
#include "tests/bench/gpu_verify/gpu_plans.h"

namespace bench {

struct MeasuredCalls {
  std::string device;           // its class, see common/runtime/machine_class.h
  double total_us = 0;          // of a run, the mean of the middle half
  double spread_us = 0;         // from the first to the third quartile
  double prepare_us = 0;        // of the calls that run once, when weights are bound
  std::vector<double> call_us;  // one a call, repeated alone in a recording; 0: it runs at load
};

// Random weights, which repeat every few megabytes but are memory of their own, and random inputs
// of these sizes.
common::Result<MeasuredCalls> measure_calls(GpuPlans& plans, const common::Graph& graph,
                                            common::Program program,
                                            const std::vector<int64_t>& sizes,
                                            const common::MeasureOptions& options);
// The GPU that is there. kUnavailable says what is missing: a GPU, its driver or NVRTC;
// kInvalidInput where it runs other code than `target`.
common::Result<std::unique_ptr<GpuPlans>> open_gpu(const common::Target& target);

}  // namespace bench
