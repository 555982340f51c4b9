// What the farm says of itself, as JSON for people and tools.
#pragma once

#include <string>

#include "coordinator/service/clients.h"
#include "coordinator/service/environment.h"
#include "coordinator/service/job_table.h"

namespace coordinator::service {

struct StatusSources {
  const Environment& environment;
  const JobTable& jobs;
  const Clients& clients;
  const std::string& coordinator_id;
  const common::Principal& asker;  // who sees its own tenant's jobs, or as administrator all
};

// One JSON object. `kCache` reads every measurement, so it is not for polling.
std::string status_json(common::StatusTopic topic, const StatusSources& sources);

}  // namespace coordinator::service
