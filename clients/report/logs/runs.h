// All runs that a report shows.
#pragma once

#include <string>
#include <vector>

#include "clients/report/logs/plan_memory.h"
#include "clients/report/logs/search.h"
#include "clients/report/logs/training.h"
#include "clients/report/logs/validation.h"
#include "common/records/run_log.h"

namespace clients {

struct Runs {
  std::vector<Training> trainings;
  std::vector<Validation> validations;
  std::vector<SearchRun> searches;
  std::vector<PlanMemory> plans;
  std::vector<std::string> unread;  // of each log that cannot be shown, why

  size_t count() const {
    return trainings.size() + validations.size() + searches.size() + plans.size() + unread.size();
  }
  bool empty() const { return count() == 0; }
};

// In the order of the logs.
Runs read_runs(const std::vector<common::RunLog>& logs);

// The logs of a file of them. kInvalidInput naming the line of `name` that no reader takes.
// `now_ns`: the time of logs without one.
common::Result<std::vector<common::RunLog>> import_logs(std::string_view text,
                                                        const std::string& name, int64_t now_ns);

}  // namespace clients
