// The store's plans as the page shows them, read by whoever asks and not by the event loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/store/store.h"
#include "common/base/result.h"
#include "coordinator/service/plans/kernel_sources.h"
#include "coordinator/service/plans/owned_plan.h"
#include "coordinator/service/plans/plan_making.h"

namespace coordinator::service {

// Thread-safe. Texts are JSON.
class PlanViews {
 public:
  explicit PlanViews(cache::Store& store) : store_(store) {}

  // {"total", "rows"}: `count` plans after `skip`, the newest first.
  common::Result<std::string> list(size_t skip, size_t count);
  // The id of the plan whose id or graph's hash begins with these digits. kInvalidInput when there
  // are several, or `digits` are none; empty when there is no such plan.
  common::Result<std::optional<common::Digest>> id_of(std::string_view digits);
  // The plan of that id, with at most kKernelsMax kernels. Empty when there is none.
  common::Result<std::string> plan(const common::Digest& id);
  // {"text", "truncated"}: a kernel's source, at most kTextBytesMax of it; -1: what comes before
  // all of them. Empty when there is no such plan or kernel. Waits for a process the first time.
  common::Result<std::string> source(const common::Digest& id, int64_t kernel);
  // The store's counts, at most kStatsAgeMs old: reading them takes as long as there are records.
  common::Result<cache::StoreStats> stats();
  // Whoever waits for a process waits no longer.
  void stop() { is_stopping_ = true; }

  static constexpr size_t kKernelsMax = 2'000;
  static constexpr size_t kTextBytesMax = size_t{512} << 10;
  static constexpr int64_t kStatsAgeMs = 5'000;

 private:
  struct Found {
    cache::StoredPlan stored;
    OwnedPlan owned;
    std::optional<PlanMaking> making;  // of its recipe, where it has one
  };
  common::Result<std::optional<Found>> find(const common::Digest& id);
  common::Result<std::shared_ptr<const KernelSources>> sources(const common::Digest& id,
                                                               const Found& found);

  static constexpr size_t kSourcesMax = 4;  // plans whose sources are kept
  cache::Store& store_;
  std::atomic<bool> is_stopping_{false};
  std::mutex stats_mutex_;  // guards the next two
  cache::StoreStats stats_;
  int64_t counted_ms_ = 0;
  std::timed_mutex sources_mutex_;  // one process at a time; guards the next two
  std::list<std::pair<common::Digest, std::shared_ptr<const KernelSources>>> sources_;
  std::shared_ptr<const common::Sandbox> sandbox_;
};

}  // namespace coordinator::service
