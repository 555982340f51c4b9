// What the farm says of itself, as JSON for people and tools.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "coordinator/service/job/environment.h"
#include "coordinator/service/jobs/job_table.h"
#include "coordinator/service/loop/clients.h"

namespace coordinator::service {

struct StatusSources {
  const Environment& environment;
  const JobTable& jobs;
  const Clients& clients;
  const std::string& coordinator_id;
  const common::Principal& asker;  // who sees its own tenant's jobs, or as administrator all
  // As read before; null: kCache reads them, which takes as long as there are measurements.
  const cache::StoreStats* store_stats = nullptr;
};

// The farm as a whole, without its tenants.
nlohmann::ordered_json farm_json(const StatusSources& sources);
// A row for each of these sessions, which are connected now.
nlohmann::ordered_json worker_rows_json(const StatusSources& sources,
                                        const std::vector<const WorkerSession*>& sessions);

// One JSON object. Lists of workers, of jobs and, in kStatus and kCache, of tenants come by pages
// of ServiceLimits::list_bytes: one that is not the last says how many rows are "omitted", and in
// "next" what `after` they begin.
std::string status_json(common::StatusTopic topic, const StatusSources& sources,
                        const std::string& after = {});

}  // namespace coordinator::service
