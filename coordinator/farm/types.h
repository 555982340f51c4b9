// The farm's vocabulary: ids, outcomes and limits, shared by the scheduler's events and actions.
#pragma once

#include <cstdint>

#include "common/base/outcome.h"

namespace coordinator::farm {

// Chosen by the caller. A worker keeps its id over restarts; task and job ids are never used twice.
using WorkerId = uint64_t;
using JobId = uint64_t;
using TaskId = uint64_t;
// A lease is (task, epoch); the epoch of a task only grows.
using Epoch = uint64_t;
// Whatever the caller keeps under this number; the scheduler only hands it back.
using Handle = uint64_t;

using common::TaskOutcome;

// Why a task went back to the queue.
enum class RequeueReason : uint8_t {
  kReturned,      // the worker gave the lease back
  kInfra,         // the worker reported an infra outcome
  kLeaseExpired,  // no heartbeat named the lease in time, or the task's own deadline passed
  kWorkerLost,
  kUnconfirmedCrash,  // one worker reported a crash or hang; another one shall confirm it
};
inline constexpr RequeueReason kRequeueReasons[] = {
    RequeueReason::kReturned, RequeueReason::kInfra, RequeueReason::kLeaseExpired,
    RequeueReason::kWorkerLost, RequeueReason::kUnconfirmedCrash};
const char* requeue_reason_name(RequeueReason reason);

// Why an event was refused. The caller's next move is in each comment.
enum class Refusal : uint8_t {
  kFull,       // a limit of Config is reached: try again later
  kUnknown,    // the job is not known: add the job first
  kCancelled,  // the job was cancelled: add no more tasks
  kInvalid,    // a field is empty or out of the range that Config gives: change it
};
const char* refusal_name(Refusal refusal);

struct Times {
  int64_t heartbeat_timeout_ms = 10'000;  // silence after which a worker is lost
  int64_t lease_ms = 15'000;              // a lease no heartbeat names lives this long
  int64_t lease_slack_ms = 30'000;        // a task's own deadline: its run limit plus this
  int64_t settle_ms = 2'000;              // a revoked lease holds its slot at least this long
                                          // unless the worker itself gives it up
  int64_t elsewhere_ms = 5'000;           // a failed task waits this long for another worker
  int64_t no_worker_grace_ms = 30'000;    // before a user is told that no worker has the target
  int64_t stall_ms = 5'000;               // a longer gap between ticks means that the coordinator
                                          // slept: workers get a fresh timeout
  int64_t suspend_ms_min = 1'000;         // first pause of a worker that keeps failing,
  int64_t suspend_ms_max = 60'000;        // doubled with each further failure up to this
};

// What the scheduler takes on, and the ranges of what it is told. All are inclusive.
struct Limits {
  uint32_t workers_max = 4'096;
  uint32_t slots_max = 256;  // per worker
  uint32_t targets_max = 256;
  uint32_t target_bytes_max = 1'024;
  uint32_t jobs_max = 16'384;
  uint32_t tasks_max = 262'144;          // open tasks, all jobs together
  uint32_t tasks_per_job_max = 131'072;  // open tasks
  uint32_t suspects_max = 65'536;        // fingerprints remembered as killers; oldest go first
  int64_t run_limit_ms_max = 3'600'000;
  uint32_t priority_max = 100;
  uint32_t cost_max = 65'536;
};

struct Config {
  Times times;
  Limits limits;
  // How often something may fail, inclusive.
  uint32_t infra_failures_max = 5;  // a task that failed so often for infra reasons is given up
  uint32_t given_up_max = 4;        // tasks of one job given up in a row, with no verdict on
                                    // another between: the last one stops the job
  uint32_t strikes_max = 3;         // failures in a row before a worker is suspended
  uint32_t killed_workers_max = 2;  // distinct workers a candidate may kill: the last one
                                    // quarantines it
  uint32_t blamed_losses_max = 2;   // more workers lost within one heartbeat timeout are the
                                    // network's fault, not their candidates'
  bool confirm_crashes = true;      // a first crash or hang is tried on another worker, if any
};

}  // namespace coordinator::farm
