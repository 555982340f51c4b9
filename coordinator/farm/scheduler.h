// The farm's scheduler: a pure state machine that turns events into actions, so that everything a
// distributed system can do to it can be replayed from a seed.
//
// It has no threads, sockets, clock or randomness: the same events at the same times give the same
// actions. What it guarantees:
//  - a task is committed (or given up, or refused, or cancelled) exactly once;
//  - a result counts only under the lease that is valid now: same worker, task and epoch;
//  - a worker never holds more leases than the slots it offered, counting revoked ones that it may
//    still be running;
//  - work is shared by FairShare, targets match exactly;
//  - whatever waits for ever is reported (NoWorkerForTarget, TaskFailedInfra, JobStopped).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/farm/actions.h"
#include "coordinator/farm/events.h"
#include "coordinator/farm/types.h"

namespace coordinator::farm {

class Machine;

struct Stats {
  size_t workers = 0;
  size_t jobs = 0;
  size_t tasks_open = 0;
  size_t tasks_leased = 0;
};

struct WorkerView {
  WorkerId worker = 0;
  std::string target;
  uint32_t slots = 0;
  size_t leases = 0;
  bool draining = false;
  bool suspended = false;
  int64_t last_seen_ns = 0;
};

struct JobView {
  JobId job = 0;
  std::string tenant;
  uint32_t priority = 0;
  size_t tasks_open = 0;
  size_t tasks_leased = 0;
  bool cancelled = false;
  std::vector<std::string> targets_without_worker;  // as reported by NoWorkerForTarget
};

// Not thread-safe. Events cost O(log n) in the number of tasks, workers and jobs, plus the leases
// or tasks that the event itself names or ends.
class Scheduler {
 public:
  explicit Scheduler(const Config& config);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // `now_ns` comes from one monotonic clock; a time before the last one counts as the last one.
  std::vector<Action> on_event(const Event& event, int64_t now_ns);

  // When the next Tick has something to do. Empty: not before another event.
  std::optional<int64_t> next_timer_ns() const;

  Stats stats() const;
  // In the order of ids; O(n log n), for people.
  std::vector<WorkerView> workers() const;
  std::vector<JobView> jobs() const;
  // Tasks in queues, by target: a worker with room takes the next of them, or parks it where it is
  // for another worker. Parked ones are not counted.
  std::map<std::string, size_t> tasks_waiting() const;
  // Whether this worker is known and may be sent work.
  bool knows_worker(WorkerId worker) const;

  // Aborts if the state contradicts itself. O(n), for tests.
  void check_invariants() const;

 private:
  std::unique_ptr<Machine> machine_;
};

}  // namespace coordinator::farm
