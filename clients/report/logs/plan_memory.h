// What an instance of a plan keeps in memory and what its kernels take, as its log tells of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/report/logs/run_head.h"
#include "common/base/result.h"
#include "common/records/run_log.h"

namespace clients {

inline constexpr size_t kPlanKernelsMax = 10'000;  // lines

struct KernelTime {
  std::string kernel;            // its name in the plan's machine code
  std::string modules, sources;  // whose weights it reads and where (common/plan/kernel_origins.h)
  int64_t calls = 0;             // in a run
  double ms = 0;                 // of all calls in a run; 0: it was not timed
};

struct PlanMemory {
  RunHead head;
  std::string id;                   // of the plan
  NamedNumbers memory;              // bytes by what they are for
  std::vector<KernelTime> kernels;  // in the order of lines
};

// kInvalidInput naming the line; `first_line` is the number of the log's first.
common::Result<PlanMemory> parse_plan_memory(const common::RunLog& log, int64_t first_line = 1);
// The log that this is read from.
common::RunLog log_of(const PlanMemory& plan);

}  // namespace clients
