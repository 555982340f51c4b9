#include "coordinator/service/meters.h"

#include <algorithm>

namespace coordinator::service {
namespace {

constexpr const char* kCompiledHelp = "Kernels of tasks, by whether they had to be compiled";

// From the cached kernel to the slowest compiler's limit.
const std::vector<double> kCompileSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30};
const std::vector<double> kJobSeconds = {0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000};

}  // namespace

Meters::Meters()
    : compile_(metrics_.histogram("lfarm_compile_seconds",
                                  "Time that workers took to compile a candidate's kernels",
                                  kCompileSeconds)),
      compiled_(metrics_.counter("lfarm_kernels_total", kCompiledHelp, {{"compiled", "yes"}})),
      compiled_before_(
          metrics_.counter("lfarm_kernels_total", kCompiledHelp, {{"compiled", "no"}})),
      stale_(metrics_.counter("lfarm_stale_results_total", "Results that came under a void lease")),
      lost_(metrics_.counter("lfarm_workers_lost_total", "Workers that fell silent or restarted")),
      quarantined_(metrics_.counter("lfarm_quarantined_total",
                                    "Candidates banned after they took down workers")) {
  // A series that is there from the start lets alerts see its first step.
  for (int k = 0; k < common::kOutcomes; ++k) {
    outcomes_.push_back(
        metrics_.counter("lfarm_tasks_total", "Tasks that ended, by outcome",
                         {{"outcome", common::outcome_name(static_cast<common::TaskOutcome>(k))}}));
  }
}

void Meters::task_ended(common::TaskOutcome outcome, const common::TaskReport& report) {
  outcomes_[static_cast<size_t>(outcome)].add();
  if (outcome != common::TaskOutcome::kOk) return;
  compile_.observe(report.compile_ms * 1e-3);
  uint64_t compiled = report.kernels_compiled;
  uint64_t found = report.kernels.size() - std::min<uint64_t>(report.kernels.size(), compiled);
  compiled_.add(static_cast<double>(compiled));
  compiled_before_.add(static_cast<double>(found));
  std::lock_guard<std::mutex> lock(mutex_);
  kernels_.compiled += compiled;
  kernels_.found += found;
}

void Meters::task_requeued(const char* reason) {
  metrics_
      .counter("lfarm_tasks_requeued_total", "Leases that ended without a verdict, by reason",
               {{"reason", reason}})
      .add();
}

void Meters::plan_asked(const std::string& tenant, const char* result) {
  metrics_
      .counter("lfarm_plan_requests_total", "Plans that clients asked for, by what was there",
               {{"tenant", tenant}, {"result", result}})
      .add();
  std::lock_guard<std::mutex> lock(mutex_);
  ++requests_[tenant][result];
}

std::map<std::string, std::map<std::string, uint64_t>> Meters::plan_requests() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return requests_;
}

KernelCounts Meters::kernels() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kernels_;
}

void Meters::job_ended(const char* how, double seconds) {
  metrics_.counter("lfarm_jobs_total", "Jobs that ended: done or failed", {{"end", how}}).add();
  metrics_
      .histogram("lfarm_job_seconds", "From a job's submit to its end", kJobSeconds, {{"end", how}})
      .observe(seconds);
}

}  // namespace coordinator::service
