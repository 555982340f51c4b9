// What the page asks of the loop, as JSON: an overview, jobs with their courses, candidates. Each
// answer is bounded, and says how much there is beside what it shows.
#pragma once

#include <string>

#include "coordinator/service/status.h"

namespace coordinator::service {

// {"farm": as /api/v1/status, "demand": as /api/v1/demand, "workers": {"total", "rows"},
//  "jobs": {"open", "ended", "rows"}}: at most kOverviewRows rows each, the newest jobs.
inline constexpr size_t kOverviewRows = 50;
std::string overview_json(const StatusSources& sources);

// {"total", "rows"}: `count` workers after `skip`, in the order of names.
std::string workers_page_json(const StatusSources& sources, size_t skip, size_t count);

// {"total", "rows"}: `count` jobs after `skip`, open and ended ones, the newest first.
std::string jobs_page_json(const StatusSources& sources, size_t skip, size_t count);

// {"job": its row, "course": JobCourse::summary()}; empty when there is no such job.
std::string job_json(const StatusSources& sources, farm::JobId id);

// {"rows"}: of the kept candidates of that outcome, or of all if it is "", `count` after `skip`,
// the newest first; empty when there is no such job.
std::string candidates_json(const StatusSources& sources, farm::JobId id, size_t skip, size_t count,
                            const std::string& outcome);

}  // namespace coordinator::service
