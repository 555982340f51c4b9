// What the coordinator counts for monitoring. docs/operations.md says what each metric means.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/outcome.h"
#include "common/metrics/metrics.h"
#include "common/wire/task.h"

namespace coordinator::service {

// Kernels of tasks: those that workers had to compile, and those that they had compiled before.
struct KernelCounts {
  uint64_t compiled = 0;
  uint64_t found = 0;
};

// Thread-safe.
class Meters {
 public:
  Meters();

  void task_ended(common::TaskOutcome outcome, const common::TaskReport& report);
  void task_requeued(const char* reason);
  // `result`: "hit", "shared" (of another farm), "partial" or "miss" (searched for, with and
  // without what earlier searches found), or "none" (asked for, and nobody searches).
  void plan_asked(const std::string& tenant, const char* result);
  void job_ended(const char* how, double seconds);
  void result_stale() { stale_.add(); }
  void worker_lost() { lost_.add(); }
  void candidate_quarantined() { quarantined_.add(); }

  // What the two above have come to since the start: by tenant, then by result.
  std::map<std::string, std::map<std::string, uint64_t>> plan_requests() const;
  KernelCounts kernels() const;

  std::string text(const std::vector<common::GaugeFamily>& gauges) const {
    return metrics_.text(gauges);
  }

 private:
  common::Metrics metrics_;
  std::vector<common::Counter> outcomes_;  // by TaskOutcome: tasks end by the thousand a second
  common::Histogram compile_;
  common::Counter compiled_;
  common::Counter compiled_before_;
  common::Counter stale_;
  common::Counter lost_;
  common::Counter quarantined_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, std::map<std::string, uint64_t>> requests_;
  KernelCounts kernels_;
};

}  // namespace coordinator::service
