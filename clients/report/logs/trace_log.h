// A search's log made of what its farm keeps of the job (`lfarm jobs trace`).
#pragma once

#include <string>
#include <string_view>

#include "clients/report/logs/run_head.h"
#include "common/base/result.h"
#include "common/records/run_log.h"

namespace clients {

// What the trace does not say.
struct TracedPlan {
  RunHead head;
  std::string plan;  // its id
  double best_ms = 0, baseline_ms = 0;
};

// `trace`: of FarmClient::trace(). Its candidates, what it knew at times, and kernels with their
// schedules as far as it tells of them; parse_search() reads the log. kCorrupt where the text is no
// trace.
common::Result<common::RunLog> log_of_trace(std::string_view trace, const TracedPlan& found);

}  // namespace clients
