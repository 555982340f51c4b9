// What can happen to the farm: the inputs of the scheduler. Every event may arrive late, twice or
// out of order; none of them can break the scheduler.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/base/digest.h"
#include "coordinator/farm/types.h"

namespace coordinator::farm {

// A worker introduces itself. `incarnation` grows with each start of the worker's process (its
// start time will do): a higher one means that whatever the earlier process held is lost, a lower
// one is an old message and ignored. The same one again only renews the slots.
struct WorkerHello {
  WorkerId worker = 0;
  uint64_t incarnation = 0;
  std::string target;  // matched exactly with TaskAdded::target
  uint32_t slots = 0;  // leases it is willing to hold at a time
};

// The number of leases the worker is willing to hold at a time, not a difference.
struct WorkerCredit {
  WorkerId worker = 0;
  uint64_t incarnation = 0;
  uint32_t slots = 0;
};

struct HeldLease {
  TaskId task = 0;
  Epoch epoch = 0;
  bool executing = false;  // on the device now, so that it is to blame if the worker dies
};

// All leases the worker holds. Keeps worker and leases alive; leases the farm no longer wants are
// answered with RevokeLease.
struct WorkerHeartbeat {
  WorkerId worker = 0;
  uint64_t incarnation = 0;
  uint32_t slots = 0;
  std::vector<HeldLease> leases;
};

// The worker gets no more work. It finishes or returns its leases.
struct WorkerDrain {
  WorkerId worker = 0;
  uint64_t incarnation = 0;
};

// The worker said good-bye (clean), or its connection or process is known to be dead (not clean).
struct WorkerGone {
  WorkerId worker = 0;
  uint64_t incarnation = 0;
  bool clean = false;
};

// The worker gives a lease back without having judged the candidate.
struct LeaseReturned {
  WorkerId worker = 0;
  TaskId task = 0;
  Epoch epoch = 0;
};

// Must come before the job's first task. Within one tenant, jobs share workers in proportion to
// `priority` (1..Config::priority_max); tenants share them equally.
struct JobAdded {
  JobId job = 0;
  std::string tenant;
  uint32_t priority = 10;
};

// An open task. Also how a restarted coordinator brings its tasks back: `first_epoch` must then be
// higher than any epoch the task had before.
struct TaskAdded {
  TaskId task = 0;
  JobId job = 0;
  std::string target;
  int64_t run_limit_ms = 0;    // the worker kills the candidate after this
  uint32_t cost = 1;           // share of the farm the task is expected to use, any unit
  common::Digest fingerprint;  // of the candidate; zero: never quarantined
  Handle payload = 0;
  Epoch first_epoch = 1;
  WorkerId only = 0;  // the one worker that may have it, however long that takes; 0: any
};

// `result` is handed back by TaskCommitted; if the same call returns no TaskCommitted with it, it
// is not needed again.
struct TaskResult {
  WorkerId worker = 0;
  TaskId task = 0;
  Epoch epoch = 0;
  TaskOutcome outcome = TaskOutcome::kOk;
  Handle result = 0;
};

// Nobody waits for the task any more: it is dropped and its lease revoked, without an answer.
struct TaskWithdrawn {
  TaskId task = 0;
};

// Drops the job's open tasks and revokes its leases; none of them is committed any more.
struct JobCancelled {
  JobId job = 0;
};

// Forgets the job, cancelling what is still open.
struct JobRemoved {
  JobId job = 0;
};

// Quarantines a fingerprint by hand, or again after a restart.
struct FingerprintBanned {
  common::Digest fingerprint;
};

// Time has passed. The only event that expires leases and workers: let the events that already
// arrived go first, so that a slow coordinator does not declare its workers dead.
struct Tick {};

using Event = std::variant<WorkerHello, WorkerCredit, WorkerHeartbeat, WorkerDrain, WorkerGone,
                           LeaseReturned, JobAdded, TaskAdded, TaskResult, TaskWithdrawn,
                           JobCancelled, JobRemoved, FingerprintBanned, Tick>;

}  // namespace coordinator::farm
