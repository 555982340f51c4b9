// Drives the scheduler: feeds it what happened, carries out what it wants and keeps the open tasks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "cache/store/store.h"
#include "common/base/clock.h"
#include "common/base/incarnation.h"
#include "common/wire/messages.h"
#include "coordinator/farm/scheduler.h"
#include "coordinator/service/observe/meters.h"
#include "coordinator/service/observe/timeline.h"
#include "coordinator/service/workers/candidate.h"

namespace coordinator::service {

struct TaskSpec {
  farm::JobId job = 0;
  std::string target;
  std::shared_ptr<const Candidate> candidate;
  // Where not 0: compile the program, reproducibly, and run nothing; this worker alone may have it.
  farm::WorkerId only_build_at = 0;
};

// How a task ended. Exactly one comes for each task of a job that is not cancelled.
struct TaskDone {
  farm::JobId job = 0;
  std::shared_ptr<const Candidate> candidate;
  CandidateResult result;
  int64_t worker_ns = 0;  // of workers' time that the task took
  TaskTimes times;
  bool is_only_build = false;
  bool is_reproducible = false;  // the worker was asked to compile it so
};

// Carries the scheduler's wishes to the workers. Implementations may feed the dispatcher.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void send_task(farm::WorkerId worker, const common::Task& task) = 0;
  virtual void revoke(farm::WorkerId worker, const common::TaskLease& lease) = 0;
  virtual void ask_for_hello(farm::WorkerId worker) = 0;
  virtual void lost(farm::WorkerId worker, bool restarted) = 0;
  virtual void refused(farm::WorkerId worker, farm::Refusal refusal) = 0;
  virtual std::string name(farm::WorkerId worker) const = 0;
  // Tasks that the worker holds at once, and that share its time.
  virtual uint32_t slots_of(farm::WorkerId) const { return 1; }
  // Whether another worker would make the same objects of a program that both compile reproducibly.
  virtual bool has_twin(farm::WorkerId) const { return false; }
};

// Learns how tasks end. Implementations may add and cancel tasks.
class TaskSink {
 public:
  virtual ~TaskSink() = default;
  virtual void task_done(TaskDone done) = 0;
  // The job's last so many tasks were all given up; the others are dropped.
  virtual void job_stopped(farm::JobId job, uint32_t given_up) = 0;
};

// Numbers of one coordinator's tasks. They carry its incarnation, so that no other coordinator or
// replica gives the same ones: task ids begin at one half of it, epochs at the other. Ids are exact
// as JSON readers' doubles.
class TaskNumbers {
 public:
  explicit TaskNumbers(const common::Incarnation& incarnation);
  farm::TaskId next() { return first_ + ++made_; }
  bool has_made(farm::TaskId task) const { return task > first_ && task - first_ <= made_; }
  farm::Epoch first_epoch() const { return first_epoch_; }

 private:
  const farm::TaskId first_;
  const farm::Epoch first_epoch_;
  uint64_t made_ = 0;
};

struct DispatcherOptions {
  farm::Config farm;
  common::Incarnation incarnation;  // of the coordinator
  int64_t run_limit_ms = 0;
  // Whether a second worker compiles what may become a plan. Workers of one user on one machine
  // would vouch for each other alone.
  bool has_second_builds = true;
};

// Not thread-safe. Reentrant: what is fed from within a callback takes effect after it.
class Dispatcher {
 public:
  Dispatcher(const DispatcherOptions& options, const common::Clock& clock, cache::Store& store,
             Meters& meters);
  // Both must be set before anything is fed, and outlive the dispatcher.
  void connect(WorkerLink& workers, TaskSink& sink);

  void feed(farm::Event event);
  // A worker's verdict; `result` reaches the job unless the lease is void.
  void report(farm::WorkerId worker, const common::TaskLease& lease, CandidateResult result);

  void add_job(farm::JobId job, const std::string& tenant, uint32_t priority);
  void add_task(TaskSpec spec);
  // Ends the job's open tasks of which `is_given_up` as outcome kInfra, with this message; of
  // kWaiting only what no worker has begun.
  enum class GiveUp { kOpen, kWaiting };
  void give_up_tasks(farm::JobId job, GiveUp which,
                     const std::function<bool(const TaskSpec&)>& is_given_up,
                     const std::string& message);
  // The number of a worker's tasks that are under way: it compiles one while it runs another. The
  // others wait.
  static constexpr size_t kBegunByWorker = 2;
  // Drops the job with its open tasks; nothing more is heard of them.
  void remove_job(farm::JobId job);
  size_t open_tasks(farm::JobId job) const;
  // Whether this coordinator, and not an earlier one or another replica, made the task.
  bool has_made(uint64_t task) const { return numbers_.has_made(task); }
  // Null unless the task is open.
  const TaskSpec* task(uint64_t id) const;

  // Nothing that is fed from now on has an effect.
  void close() { closed_ = true; }

  const farm::Scheduler& scheduler() const { return scheduler_; }

 private:
  struct Open {
    TaskSpec spec;
    farm::WorkerId worker = 0;  // that has it, or had it last
    int64_t sent_ns = 0;        // since when it has been with a worker
    uint32_t shares = 1;        // tasks that share that worker's time
    int64_t spent_ns = 0;       // by earlier workers
    bool is_reproducible = false;
    TaskTimes times = {};
  };
  // Of events that wait.
  struct WaitingResults {
    farm::Handle made = 0;
    std::unordered_map<farm::Handle, CandidateResult> by_handle;
  };
  void pump();
  void carry_out(const farm::Action& action);
  void on(const farm::SendTask& action);
  void on(const farm::RevokeLease& action);
  void on(const farm::TaskCommitted& action);
  void on(const farm::TaskFailedInfra& action);
  void on(const farm::JobStopped& action);
  void on(const farm::TaskRequeued& action);
  void on(const farm::TaskRefused& action);
  void on(const farm::JobRefused& action);
  void on(const farm::WorkerRefused& action);
  void on(const farm::CandidateQuarantined& action);
  void on(const farm::WorkerLost& action);
  void on(const farm::WorkerUnknown& action);
  void on(const farm::WorkerSuspended& action);
  void on(const farm::WorkerDrained&) {}
  void on(const farm::NoWorkerForTarget& action);
  void on(const farm::NoWorkerCleared&) {}
  void on(const farm::StaleResult& action);
  void end_lease(Open& task, const char* how);
  void end_task(farm::TaskId task, CandidateResult result, bool is_withdrawn = false);
  int64_t worker_ns(const Open& task) const;
  std::unordered_set<farm::TaskId> begun_tasks() const;

  const DispatcherOptions options_;
  const common::Clock& clock_;
  cache::Store& store_;
  Meters& meters_;
  farm::Scheduler scheduler_;
  WorkerLink* workers_ = nullptr;
  TaskSink* sink_ = nullptr;
  TaskNumbers numbers_;
  std::unordered_map<farm::TaskId, Open> tasks_;
  std::unordered_map<farm::JobId, std::unordered_set<farm::TaskId>> by_job_;
  std::deque<farm::Event> events_;
  WaitingResults results_;
  std::deque<TaskDone> done_;
  bool pumping_ = false;
  bool closed_ = false;
};

}  // namespace coordinator::service
