// What each call of a program moves between a GPU's memory and its chip.
#pragma once

#include <vector>

#include "common/ir/llir/llir.h"
#include "tests/bench/gpu_static/static_kernel.h"

namespace bench {

struct PlanTraffic {
  std::vector<char> at_load;       // one a call: it runs once, when weights are bound
  std::vector<CallTraffic> calls;  // one a call
};

// Temporary buffers that a share of the second cache holds cost nothing, all others each once a
// call; of a table that is only gathered from the gathered elements count, of a state that is
// scattered into what is scattered. `sizes`: of the program's symbols.
PlanTraffic plan_traffic(const common::Program& program, const std::vector<int64_t>& sizes,
                         const common::GpuMachine& machine);

// Of a kernel alone, whose inputs and outputs are all in the device's memory.
CallTraffic lone_traffic(const common::Graph& body, const std::vector<int64_t>& symbols);

}  // namespace bench
