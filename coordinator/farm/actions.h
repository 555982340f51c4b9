// What the farm wants done: the outputs of the scheduler, to be carried out in order.
#pragma once

#include <string>
#include <variant>

#include "common/base/digest.h"
#include "coordinator/farm/types.h"

namespace coordinator::farm {

// Send the task to the worker. `deadline_ns` is on the scheduler's clock; the lease never lives
// longer.
struct SendTask {
  WorkerId worker = 0;
  TaskId task = 0;
  JobId job = 0;
  Epoch epoch = 0;
  uint32_t attempt = 0;  // 1 for the first lease of the task
  int64_t deadline_ns = 0;
  Handle payload = 0;
};

// Tell the worker to stop and forget the lease. Sent again as long as heartbeats name it.
struct RevokeLease {
  WorkerId worker = 0;
  TaskId task = 0;
  Epoch epoch = 0;
};

// The task is done; exactly once per task. `result` is 0 when the verdict came from quarantine and
// not from a worker's message.
struct TaskCommitted {
  TaskId task = 0;
  JobId job = 0;
  TaskOutcome outcome = TaskOutcome::kOk;
  Handle result = 0;
  WorkerId worker = 0;  // 0 when `result` is 0
};

// The task is given up, instead of TaskCommitted: it says nothing about the candidate.
struct TaskFailedInfra {
  TaskId task = 0;
  JobId job = 0;
  uint32_t failures = 0;
};

// So many tasks in a row were given up that the farm, not the candidates, is to blame: the job is
// cancelled, and whoever waits for it should be told.
struct JobStopped {
  JobId job = 0;
  uint32_t given_up = 0;
};

struct TaskRequeued {
  TaskId task = 0;
  JobId job = 0;
  WorkerId worker = 0;  // the one that had it
  RequeueReason reason = RequeueReason::kReturned;
};

struct TaskRefused {
  TaskId task = 0;
  JobId job = 0;
  Refusal refusal = Refusal::kFull;
};

struct JobRefused {
  JobId job = 0;
  Refusal refusal = Refusal::kFull;
};

struct WorkerRefused {
  WorkerId worker = 0;
  Refusal refusal = Refusal::kFull;
};

// The fingerprint killed too many workers: its tasks, open or yet to come, are committed as crash.
struct CandidateQuarantined {
  common::Digest fingerprint;
};

// The worker is silent, dead or restarted; its leases went back to the queue. Unless it restarted,
// it is forgotten and has to say hello again.
struct WorkerLost {
  WorkerId worker = 0;
  bool restarted = false;
};

// A message came from a worker that is not known: ask it to say hello.
struct WorkerUnknown {
  WorkerId worker = 0;
};

// The worker fails again and again without judging candidates; it gets no work until then.
struct WorkerSuspended {
  WorkerId worker = 0;
  int64_t until_ns = 0;
};

// A draining worker holds no lease any more and may leave. Said again if it asks again.
struct WorkerDrained {
  WorkerId worker = 0;
};

// The job has waited for the grace period and no worker has its target.
struct NoWorkerForTarget {
  JobId job = 0;
  std::string target;
};

// NoWorkerForTarget no longer holds: a worker came, or the job no longer waits for one.
struct NoWorkerCleared {
  JobId job = 0;
  std::string target;
};

// The result belonged to a lease that is over, and changed nothing.
struct StaleResult {
  WorkerId worker = 0;
  TaskId task = 0;
  Epoch epoch = 0;
};

using Action = std::variant<SendTask, RevokeLease, TaskCommitted, TaskFailedInfra, JobStopped,
                            TaskRequeued, TaskRefused, JobRefused, WorkerRefused,
                            CandidateQuarantined, WorkerLost, WorkerUnknown, WorkerSuspended,
                            WorkerDrained, NoWorkerForTarget, NoWorkerCleared, StaleResult>;

}  // namespace coordinator::farm
