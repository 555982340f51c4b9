// What the coordinator counts for monitoring. docs/operations.md says what each metric means.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/base/outcome.h"
#include "common/metrics/metrics.h"
#include "common/wire/messages.h"
#include "common/wire/task.h"

namespace coordinator::service {

// Kernels of tasks: those that workers had to compile, and those that they had compiled before.
struct KernelCounts {
  uint64_t compiled = 0;
  uint64_t found = 0;
};

// Tenants that metrics tell apart; the others are counted together, as kOtherTenants.
inline constexpr size_t kTenantLabelsMax = 100;
inline constexpr const char* kOtherTenants = "other";

// Where something was found that then needed no work.
enum class CacheTier {
  kPlans,    // whole plans, in this farm's store
  kShared,   // whole plans, in the store that farms share
  kRegions,  // regions of a model that an earlier search had come to the end with
  kKernels,  // kernels of a plan that an earlier search had compiled and measured
};

// What came of compiling a plan's program a second time before it was signed.
enum class ObjectsCompared { kAlike, kDiffer, kAlone };

// Thread-safe.
class Meters {
 public:
  Meters();

  // `spans`: what the worker says its time went on.
  void task_ended(common::TaskOutcome outcome, const common::TaskReport& report,
                  const std::vector<common::TaskSpan>& spans);
  // No worker is at fault: the search that had sent it came to its end.
  void task_withdrawn() { counts_.withdrawn.add(); }
  // A task was given to a worker, after so long in the queue if it was the first time.
  void task_leased(bool is_first, double queued_seconds);
  // The result was on the disk so long after its verdict was there.
  void result_kept(double seconds) { steps_.commit.observe(seconds); }
  // One turn of the event loop, without its waiting.
  void loop_turned(double seconds) { turn_.observe(seconds); }
  void found(const std::string& tenant, CacheTier tier, uint64_t count);
  // By how much a finished search beat the plain plan, and what it took.
  void search_ended(double speedup, uint64_t candidates);
  // What stands for the tenant in labels.
  std::string tenant_label(const std::string& tenant);
  void task_requeued(const char* reason);
  // `result`: "hit", "shared" (of another farm), "partial" or "miss" (searched for, with and
  // without what earlier searches found), or "none" (asked for, and nobody searches).
  void plan_asked(const std::string& tenant, const char* result);
  void job_ended(const char* how, double seconds);
  void result_stale() { counts_.stale.add(); }
  void worker_lost() { counts_.lost.add(); }
  void candidate_quarantined() { counts_.quarantined.add(); }
  void objects_compared(ObjectsCompared result) {
    counts_.compared[static_cast<size_t>(result)].add();
  }

  // What the two above have come to since the start: by tenant, then by result.
  std::map<std::string, std::map<std::string, uint64_t>> plan_requests() const;
  KernelCounts kernels() const;

  std::string text(const std::vector<common::GaugeFamily>& gauges) const {
    return metrics_.text(gauges);
  }

 private:
  // Seconds of a task's steps.
  struct Steps {
    explicit Steps(common::Metrics& metrics);
    common::Histogram compile, verify, measure, queue, commit;
  };
  struct Counts {
    explicit Counts(common::Metrics& metrics);
    std::vector<common::Counter> outcomes;  // by TaskOutcome: tasks end by the thousand a second
    std::vector<common::Counter> compared;  // by ObjectsCompared
    common::Counter withdrawn, leased, compiled, compiled_before, stale, lost, quarantined;
  };
  common::Metrics metrics_;
  Steps steps_;
  Counts counts_;
  common::Histogram turn_;
  common::Histogram speedup_;
  common::Histogram candidates_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, std::map<std::string, uint64_t>> requests_;
  KernelCounts kernels_;
  std::set<std::string> labelled_;  // tenants with labels of their own
};

}  // namespace coordinator::service
