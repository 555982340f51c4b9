#include "coordinator/service/observe/meters.h"

#include <algorithm>
#include <string_view>

#include "coordinator/farm/types.h"

namespace coordinator::service {
namespace {

constexpr const char* kRequeuedHelp = "Leases that ended without a verdict, by reason";
constexpr const char* kEndsHelp = "Jobs that ended: done, failed or cancelled";
constexpr const char* kEndedHelp = "Tasks that ended, by outcome";
constexpr const char* kCompiledHelp = "Kernels of tasks, by whether they had to be compiled";

// From the cached kernel to the slowest compiler's limit.
const std::vector<double> kCompileSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30};
// From a small kernel's runs to the longest that a candidate may take.
const std::vector<double> kRunSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
const std::vector<double> kWaitSeconds = {0.0001, 0.001, 0.01, 0.1, 1, 10, 60, 300, 1200};
const std::vector<double> kTurnSeconds = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10};
const std::vector<double> kSpeedups = {1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 30, 100};
const std::vector<double> kCandidates = {1, 3, 10, 30, 100, 300, 1000, 3000, 10000};
const std::vector<double> kJobSeconds = {0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000};

}  // namespace

Meters::Steps::Steps(common::Metrics& metrics)
    : compile(metrics.histogram("lfarm_compile_seconds",
                                "Time that workers took to compile a candidate's kernels",
                                kCompileSeconds)),
      verify(metrics.histogram("lfarm_verify_seconds",
                               "Time that workers took to verify a candidate", kRunSeconds)),
      measure(metrics.histogram("lfarm_measure_seconds",
                                "Time that workers took to measure a candidate", kRunSeconds)),
      queue(metrics.histogram("lfarm_queue_seconds",
                              "Time from a task's proposal to its first lease", kWaitSeconds)),
      commit(metrics.histogram("lfarm_commit_seconds",
                               "Time from a task's verdict to its result on the disk",
                               kWaitSeconds)) {}

Meters::Counts::Counts(common::Metrics& metrics)
    : withdrawn(metrics.counter("lfarm_tasks_total", kEndedHelp, {{"outcome", "withdrawn"}})),
      leased(metrics.counter("lfarm_leases_total", "Leases given to workers")),
      compiled(metrics.counter("lfarm_kernels_total", kCompiledHelp, {{"compiled", "yes"}})),
      compiled_before(metrics.counter("lfarm_kernels_total", kCompiledHelp, {{"compiled", "no"}})),
      stale(metrics.counter("lfarm_stale_results_total", "Results that came under a void lease")),
      lost(metrics.counter("lfarm_workers_lost_total", "Workers that fell silent or restarted")),
      quarantined(metrics.counter("lfarm_quarantined_total",
                                  "Candidates banned after they took down workers")) {
  for (int k = 0; k < common::kOutcomes; ++k) {
    outcomes.push_back(
        metrics.counter("lfarm_tasks_total", kEndedHelp,
                        {{"outcome", common::outcome_name(static_cast<common::TaskOutcome>(k))}}));
  }
  for (const char* result : {"alike", "differ", "alone"}) {
    compared.push_back(metrics.counter("lfarm_objects_compared_total",
                                       "Plans by whether two workers compiled the same objects",
                                       {{"result", result}}));
  }
}

Meters::Meters()
    : steps_(metrics_),
      counts_(metrics_),
      turn_(metrics_.histogram("lfarm_loop_turn_seconds",
                               "Time of a turn of the coordinator's event loop", kTurnSeconds)),
      speedup_(metrics_.histogram("lfarm_search_speedup",
                                  "By how much finished searches beat the plain plan", kSpeedups)),
      candidates_(metrics_.histogram("lfarm_search_candidates", "Candidates of finished searches",
                                     kCandidates)) {
  // A series that is there from the start lets alerts see its first step.
  for (farm::RequeueReason reason : farm::kRequeueReasons) {
    metrics_.counter("lfarm_tasks_requeued_total", kRequeuedHelp,
                     {{"reason", farm::requeue_reason_name(reason)}});
  }
  for (const char* how : {"done", "failed", "cancelled"}) {
    metrics_.counter("lfarm_jobs_total", kEndsHelp, {{"end", how}});
  }
}

void Meters::task_ended(common::TaskOutcome outcome, const common::TaskReport& report,
                        const std::vector<common::TaskSpan>& spans) {
  counts_.outcomes[static_cast<size_t>(outcome)].add();
  for (const common::TaskSpan& span : spans) {
    if (span.step == "verify") steps_.verify.observe(span.ms * 1e-3);
    if (span.step == "measure") steps_.measure.observe(span.ms * 1e-3);
  }
  if (outcome != common::TaskOutcome::kOk) return;
  steps_.compile.observe(report.compile_ms * 1e-3);
  uint64_t compiled = report.kernels_compiled;
  uint64_t found = report.kernels.size() - std::min<uint64_t>(report.kernels.size(), compiled);
  counts_.compiled.add(static_cast<double>(compiled));
  counts_.compiled_before.add(static_cast<double>(found));
  std::lock_guard<std::mutex> lock(mutex_);
  kernels_.compiled += compiled;
  kernels_.found += found;
}

void Meters::task_leased(bool is_first, double queued_seconds) {
  counts_.leased.add();
  if (is_first) steps_.queue.observe(queued_seconds);
}

void Meters::found(const std::string& tenant, CacheTier tier, uint64_t count) {
  if (count == 0) return;
  constexpr const char* kNames[] = {"plans", "shared", "regions", "kernels"};
  metrics_
      .counter("lfarm_cache_hits_total", "What was found and needed no work, by where it was",
               {{"tenant", tenant_label(tenant)}, {"tier", kNames[static_cast<int>(tier)]}})
      .add(static_cast<double>(count));
}

void Meters::search_ended(double speedup, uint64_t candidates) {
  if (speedup > 0) speedup_.observe(speedup);
  candidates_.observe(static_cast<double>(candidates));
}

std::string Meters::tenant_label(const std::string& tenant) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (labelled_.contains(tenant)) return tenant;
  if (labelled_.size() >= kTenantLabelsMax) return kOtherTenants;
  labelled_.insert(tenant);
  return tenant;
}

void Meters::task_requeued(const char* reason) {
  metrics_.counter("lfarm_tasks_requeued_total", kRequeuedHelp, {{"reason", reason}}).add();
}

void Meters::plan_asked(const std::string& tenant, const char* result) {
  metrics_
      .counter("lfarm_plan_requests_total", "Plans that clients asked for, by what was there",
               {{"tenant", tenant_label(tenant)}, {"result", result}})
      .add();
  std::string_view what = result;
  if (what == "hit") found(tenant, CacheTier::kPlans, 1);
  if (what == "shared") found(tenant, CacheTier::kShared, 1);
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
  metrics_.counter("lfarm_jobs_total", kEndsHelp, {{"end", how}}).add();
  metrics_
      .histogram("lfarm_job_seconds", "From a job's submit to its end", kJobSeconds, {{"end", how}})
      .observe(seconds);
}

}  // namespace coordinator::service
