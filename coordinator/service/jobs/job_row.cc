#include "coordinator/service/jobs/job_row.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace coordinator::service {

nlohmann::ordered_json job_row(const Environment& environment, const Job& job) {
  const JobRequest& request = job.request();
  const SearchStatus& status = job.status();
  const JobCourse& course = job.record().course();
  nlohmann::ordered_json row{{"job", request.id},
                             {"name", request.name},
                             {"state", job_ending_name(course.ending())},
                             {"phase", phase_name(job.phase())},
                             {"stage", status.stage},
                             {"graph", request.key.graph_hash.hex()},
                             {"target", request.key.target.name},
                             {"machine", job.machine()},
                             {"policy", request.key.policy},
                             {"tenant", request.tenant},
                             {"priority", request.priority},
                             {"clients", job.subscribers().size()},
                             {"candidates", status.candidates},
                             {"completed", status.completed},
                             {"budget", status.budget},
                             {"budget_ms", request.budget_ms},
                             {"best_ns", status.best_ns},
                             {"expected_ns", status.expected_ns},
                             {"baseline_ns", status.baseline_ns},
                             {"regions", status.regions},
                             {"known_regions", status.known_regions},
                             {"kernels", status.kernels},
                             {"known_kernels", status.known_kernels},
                             {"worker_ms", std::llround(status.worker_ms)},
                             {"saved_ms", std::llround(status.saved_ms)},
                             {"duplicates", status.duplicates},
                             {"reused", status.reused},
                             {"tasks_open", environment.dispatcher.open_tasks(request.id)},
                             {"elapsed_ms", job.elapsed_ms(environment.clock.now_ns())}};
  if (!course.plan().empty()) row["plan"] = course.plan();
  if (!course.message().empty()) row["message"] = course.message();
  return row;
}

}  // namespace coordinator::service
