// What the farm says to monitoring and to autoscalers.
#pragma once

#include <string>

#include "coordinator/service/status.h"

namespace coordinator::service {

// Prometheus' text format.
std::string metrics_text(const StatusSources& sources);

// Without a prefix every target by its name, and all together; else those targets together whose
// names begin with it: {"queue_depth": tasks, "workers": n, "wanted_workers": n}.
std::string demand_json(const StatusSources& sources, const std::string& prefix);

}  // namespace coordinator::service
