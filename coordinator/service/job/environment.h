// What a job works with; all of it belongs to the service and outlives every job.
#pragma once

#include <memory>

#include "cache/store/store.h"
#include "common/base/clock.h"
#include "coordinator/service/loop/background.h"
#include "coordinator/service/loop/backups.h"
#include "coordinator/service/loop/commits.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/loop/outbox.h"
#include "coordinator/service/loop/stamps.h"
#include "coordinator/service/observe/meters.h"
#include "coordinator/service/plans/plan_repository.h"
#include "coordinator/service/plans/plan_watches.h"
#include "coordinator/service/searchers/searcher_hub.h"
#include "coordinator/service/sharing/shared_tier.h"
#include "coordinator/service/workers/blob_table.h"
#include "coordinator/service/workers/dispatcher.h"
#include "coordinator/service/workers/workers.h"

namespace coordinator::service {

inline constexpr int64_t kNsPerMs = 1'000'000;

// Who does what the event loop has no time for.
struct Threads {
  std::unique_ptr<SearcherHub> searchers;  // null: all searches are in this process
  Background background;                   // admits and prepares jobs, which may take seconds
  Background steps;                        // takes searches forward
  Background waits;                        // waits for searchers

  // Searches that may be under way at a time: those that searchers take, else this process's.
  size_t searches_max(size_t inside) const {
    size_t apart = searchers ? searchers->counts().places : 0;
    return apart > 0 ? apart : inside;
  }
};

// What people and machines look at, and nothing else depends on.
struct Monitored {
  Meters& meters;
  const Backups& backups;
  const common::ConnectionCounters& connections;
};

struct Environment {
  const ServiceOptions& options;
  const common::Clock& clock;
  cache::Store& store;
  Commits& commits;
  Outbox& outbox;
  BlobTable& blobs;
  Dispatcher& dispatcher;
  Workers& workers;
  Threads& threads;
  PlanRepository& plans;
  PlanWatches& watches;
  SharedTier& shared;
  Tenants& tenants;
  Stamps& stamps;
  Monitored monitored;
};

}  // namespace coordinator::service
