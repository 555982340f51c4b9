// The scheduler's state and its transitions; only scheduler.cc and machine*.cc include this.
//
// A task is waiting (in its job's queue), parked (for its only worker, or for one other than those
// that failed it) or leased. Workers and queues of one target form a pool. Handlers change the
// state and mark the pools in which work and a free slot may now meet; dispatch() runs once at the
// end of each event.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/farm/actions.h"
#include "coordinator/farm/events.h"
#include "coordinator/farm/fair_share.h"
#include "coordinator/farm/quarantine.h"
#include "coordinator/farm/scheduler.h"
#include "coordinator/farm/task_list.h"
#include "coordinator/farm/timers.h"

namespace coordinator::farm {

struct Job;
struct Pool;
struct Queue;
struct Worker;

enum class TaskState : uint8_t { kIdle, kWaiting, kParked, kLeased };

// Workers that failed a task lately, oldest first; not used again before until_ns if there are
// others.
struct Avoided {
  std::array<WorkerId, 4> workers{};
  uint32_t count = 0;
  int64_t until_ns = 0;
};

// Of a task in state kLeased.
struct Lease {
  Worker* holder = nullptr;  // null in other states
  bool executing = false;
  int64_t end_ns = 0;            // moves with heartbeats
  int64_t hard_deadline_ns = 0;  // does not
};

struct Task {
  TaskAdded spec;
  Job* job = nullptr;
  Pool* pool = nullptr;
  Queue* queue = nullptr;
  TaskState state = TaskState::kIdle;  // kIdle only within a transition

  Epoch epoch = 0;
  uint32_t attempts = 0;  // leases granted
  uint32_t infra_failures = 0;
  uint32_t crashes = 0;
  Avoided avoided;
  Lease lease;
  int64_t timer_ns = 0;  // when kLease or kParked is armed

  ListLink<Task> place;           // in the queue, the parked list or the holder's leases
  ListLink<Task> in_job;          // all open tasks of the job
  ListLink<Task> by_fingerprint;  // all open tasks of one candidate
};
using PlaceList = LinkedList<Task, &Task::place>;
using JobList = LinkedList<Task, &Task::in_job>;
using FingerprintList = LinkedList<Task, &Task::by_fingerprint>;

// The waiting tasks of one job for one target.
struct Queue {
  PlaceList waiting;
  bool no_worker_armed = false;
  bool no_worker_reported = false;
  int64_t no_worker_ns = 0;
};

struct Job {
  JobAdded spec;
  bool cancelled = false;
  JobList open;
  size_t leased = 0;
  uint32_t given_up = 0;             // tasks in a row
  std::map<uint64_t, Queue> queues;  // by pool id
};

// How a worker's pool knows it.
struct InPool {
  bool is_free = false;  // in Pool::free
  size_t free_key = 0;
  bool is_counted = false;  // in Pool::accepting
};

struct Worker {
  WorkerId id = 0;
  uint64_t incarnation = 0;
  Pool* pool = nullptr;
  uint32_t slots = 0;
  bool draining = false;
  bool suspended = false;
  bool leaving = false;  // being removed
  int64_t suspended_until_ns = 0;
  int64_t last_seen_ns = 0;
  int64_t heartbeat_timer_ns = 0;
  uint32_t strikes = 0;  // failures in a row
  PlaceList leases;
  // Leases the farm took back but that may still run there, and since when.
  std::map<std::pair<TaskId, Epoch>, int64_t> revoked;

  InPool in_pool;

  size_t used() const { return leases.size() + revoked.size(); }
  bool accepting() const { return !leaving && !draining && slots > 0; }
  bool free() const { return accepting() && !suspended && used() < slots; }
};

struct Pool {
  uint64_t id = 0;
  std::string target;
  size_t workers = 0;
  size_t accepting = 0;                        // workers that take work, busy or not
  std::set<std::pair<size_t, WorkerId>> free;  // (slots in use, worker): least loaded first
  FairShare share;                             // over jobs with waiting tasks
  PlaceList parked;
  std::set<JobId> jobs;  // with a queue here
};

struct Pools {
  uint64_t made = 0;
  std::map<uint64_t, Pool> by_id;
  std::unordered_map<std::string, uint64_t> ids;  // by target
};

struct Ticks {
  std::optional<int64_t> last_ns;
  int64_t judge_from_ns = 0;  // nothing expires before this: the scheduler itself had stalled
};

class Machine {
 public:
  explicit Machine(const Config& config);
  ~Machine();
  std::vector<Action> on_event(const Event& event, int64_t now_ns);

  std::optional<int64_t> next_timer_ns() const { return timers_.next_ns(); }
  Stats stats() const;
  std::vector<WorkerView> workers() const;
  std::vector<JobView> jobs() const;
  std::map<std::string, size_t> tasks_waiting() const;
  bool knows_worker(WorkerId worker) const { return workers_.count(worker) != 0; }
  void check_invariants() const;

 private:
  // machine.cc: jobs and tasks.
  void handle(const JobAdded& event);
  void handle(const TaskAdded& event);
  void handle(const TaskWithdrawn& event);
  void handle(const JobCancelled& event);
  void handle(const JobRemoved& event);
  void handle(const FingerprintBanned& event);
  void handle(const Tick& event);
  bool valid(const TaskAdded& event) const;
  void cancel(Job& job);
  void enqueue(Task& task, bool first);
  void dequeue(Task& task);
  void requeue(Task& task, WorkerId from, RequeueReason reason);
  void avoid(Task& task, WorkerId worker);
  void commit(Task& task, TaskOutcome outcome, Handle result, WorkerId worker);
  void retire(Task& task);
  void quarantine(const common::Digest& fingerprint);

  // machine_workers.cc: workers and their pools.
  void handle(const WorkerHello& event);
  void handle(const WorkerCredit& event);
  void handle(const WorkerHeartbeat& event);
  void handle(const WorkerDrain& event);
  void handle(const WorkerGone& event);
  Worker* current(WorkerId id, uint64_t incarnation);
  void add_worker(const WorkerHello& event);
  enum class Departure { kClean, kLost, kRestarted };
  void remove_worker(Worker& worker, Departure departure);
  bool loss_is_blamed();
  void refresh(Worker& worker);
  void strike(Worker& worker);
  void tell_drained(Worker& worker);
  void worker_timer(Worker& worker);
  void suspension_over(Worker& worker);
  void set_slots(Worker& worker, uint32_t slots);
  void count_accepting(Worker& worker);
  Pool* pool_for(const std::string& target);
  void drop_pool_if_unused(Pool& pool);
  void arm_no_worker(Pool& pool, Job& job, Queue& queue);
  void clear_no_worker(Pool& pool, Job& job, Queue& queue);
  void no_worker_timer(const Timer& timer);

  // machine_leases.cc: leases and dispatch.
  void handle(const LeaseReturned& event);
  void handle(const TaskResult& event);
  Task* leased(WorkerId worker, TaskId task, Epoch epoch);
  void forget_revoked(WorkerId worker, TaskId task, Epoch epoch);
  void grant(Task& task, Worker& worker);
  enum class Slot { kFree, kMayStillRun };
  void end_lease(Task& task, Slot slot);
  void judged_crash(Task& task, Worker& worker, const TaskResult& event);
  void infra_failure(Task& task, WorkerId worker, RequeueReason reason);
  void lease_timer(Task& task);
  void park(Task& task);
  void unpark(Task& task);
  void unpark_for(Worker& worker);
  Worker* choose_worker(Pool& pool, const Task& task);
  bool may_take(const Task& task, WorkerId worker) const;
  bool avoids(const Task& task, WorkerId worker) const;
  bool others_accept(const Pool& pool, const Task& task) const;
  void dispatch(Pool& pool);
  void dispatch_marked();

  void emit(Action action) { actions_.push_back(std::move(action)); }
  void mark(Pool& pool) { marked_.insert(pool.id); }
  int64_t after_ms(int64_t ms) const { return now_ns_ + ms * 1'000'000; }

  Config config_;
  int64_t now_ns_ = 0;
  Ticks ticks_;
  std::vector<Action> actions_;
  std::set<uint64_t> marked_;  // pools to dispatch

  Timers timers_;
  Quarantine quarantine_;
  Pools pools_;
  std::unordered_map<WorkerId, Worker> workers_;
  std::unordered_map<JobId, Job> jobs_;
  std::unordered_map<TaskId, Task> tasks_;
  std::unordered_map<common::Digest, FingerprintList> fingerprints_;
  size_t leased_ = 0;
  std::deque<int64_t> losses_ns_;  // of workers, within one heartbeat timeout
};

}  // namespace coordinator::farm
