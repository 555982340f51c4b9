#include "clients/report/logs/runs.h"

#include "clients/report/logs/run_lines.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::Result;
using common::RunLog;
using common::Status;

namespace {

// Adds the run to those of its kind.
Status add_run(const RunLog& log, int64_t first_line, Runs* runs) {
  if (log.kind == kTrainingKind) {
    LFARM_ASSIGN_OR_RETURN(Training training, parse_training(log, first_line));
    runs->trainings.push_back(std::move(training));
    return {};
  }
  if (log.kind == kValidationKind) {
    LFARM_ASSIGN_OR_RETURN(Validation validation, parse_validation(log, first_line));
    runs->validations.push_back(std::move(validation));
    return {};
  }
  if (log.kind == kSearchKind) {
    LFARM_ASSIGN_OR_RETURN(SearchRun search, parse_search(log, first_line));
    runs->searches.push_back(std::move(search));
    return {};
  }
  if (log.kind == kPlanKind) {
    LFARM_ASSIGN_OR_RETURN(PlanMemory plan, parse_plan_memory(log, first_line));
    runs->plans.push_back(std::move(plan));
    return {};
  }
  return common::unsupported(cat("logs of the kind \"", log.kind, "\" need a later lfarm"));
}

}  // namespace

Runs read_runs(const std::vector<RunLog>& logs) {
  Runs runs;
  for (const RunLog& log : logs) {
    Status added = add_run(log, 1, &runs);
    if (!added.ok())
      runs.unread.push_back(cat(log.kind, " ", log.name, ": ", added.error().message));
  }
  return runs;
}

Result<std::vector<RunLog>> import_logs(std::string_view text, const std::string& name,
                                        int64_t now_ns) {
  auto named = [&](const common::Error& error) {
    return common::Error{error.code, cat(name, ", ", error.message)};
  };
  auto split = split_logs(text, now_ns);
  if (!split.ok()) return named(split.error());
  std::vector<RunLog> logs;
  for (SplitLog& part : *split) {
    Runs read;
    Status added = add_run(part.log, part.first_line, &read);
    if (!added.ok()) return named(added.error());
    Status fits = common::check_run_log(part.log);
    if (!fits.ok()) return common::invalid_input(cat(name, ": ", fits.error().message));
    logs.push_back(std::move(part.log));
  }
  return logs;
}

}  // namespace clients
