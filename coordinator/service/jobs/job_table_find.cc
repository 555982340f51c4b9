// Finds jobs by number, and by the plan that they search for.
#include <algorithm>

#include "coordinator/service/jobs/job_table.h"

namespace coordinator::service {

Job* JobTable::find(farm::JobId id) {
  auto found = jobs_.find(id);
  return found == jobs_.end() || found->second->phase() == Phase::kEnded ? nullptr
                                                                         : found->second.get();
}

std::string JobTable::class_of(const Job& job) const {
  if (job.journalled_start()) return job.machine();
  return env_.workers.class_for(job.request().key.target.name, job.machine());
}

Job* JobTable::job_for(const std::string& tenant, const common::PlanKey& key,
                       const std::string& machine) {
  const bool any_class = !env_.workers.has_target(key.target.name);
  auto [from, to] = by_plan_.equal_range(common::place_of(tenant, key.digest()));
  Job* oldest = nullptr;
  for (auto it = from; it != to; ++it) {
    Job* job = find(it->second);
    if (job == nullptr || (oldest != nullptr && oldest->request().id < it->second)) continue;
    if (any_class || class_of(*job) == machine) oldest = job;
  }
  return oldest;
}

bool JobTable::has_job(const JobRequest& request) {
  auto [from, to] = by_plan_.equal_range(common::place_of(request.tenant, request.key.digest()));
  return std::any_of(from, to, [&](const auto& entry) {
    const Job* job = find(entry.second);
    return job != nullptr && job->request().machine == request.machine;
  });
}

}  // namespace coordinator::service
