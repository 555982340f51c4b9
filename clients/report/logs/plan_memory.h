// What an instance of a plan keeps in memory, as its log tells of it.
#pragma once

#include <cstdint>
#include <string>

#include "clients/report/logs/run_head.h"
#include "common/base/result.h"
#include "common/records/run_log.h"

namespace clients {

struct PlanMemory {
  RunHead head;
  std::string id;       // of the plan
  NamedNumbers memory;  // bytes by what they are for
};

// kInvalidInput naming the line; `first_line` is the number of the log's first.
common::Result<PlanMemory> parse_plan_memory(const common::RunLog& log, int64_t first_line = 1);
// The log that this is read from.
common::RunLog log_of(const PlanMemory& plan);

}  // namespace clients
