// One job in a line: what `lfarm jobs`, /api/v1/jobs and the page list.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "coordinator/service/job/job.h"

namespace coordinator::service {

nlohmann::ordered_json job_row(const Environment& environment, const Job& job);

}  // namespace coordinator::service
