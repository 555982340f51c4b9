// A second, far simpler model of the farm that watches the scheduler's events and actions and says
// what it did wrong. It knows the rules only, nothing of how the scheduler keeps its state.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/farm/scheduler.h"
#include "farm_fairness.h"

namespace sim {

using namespace coordinator::farm;  // NOLINT: the whole vocabulary is what this file is about

class Auditor {
 public:
  explicit Auditor(const Config& config) : config_(config) {}

  // To be called after each event. Empty: nothing is wrong. Else what, for the first violation.
  std::string audit(const Event& event, const std::vector<Action>& actions, const Stats& stats,
                    int64_t now_ns);
  // The coordinator was killed: nothing is known any more but what is on the disk.
  void restart();
  // That the candidate is quarantined is on the disk.
  void keep_quarantined(const common::Digest& fingerprint) { kept_.insert(fingerprint); }
  // The same, of another replica's disk.
  std::set<common::Digest>& on_disk() { return kept_; }

  // Of a task of this or an earlier coordinator.
  const common::Digest& fingerprint(TaskId task) const { return ever_.at(task); }
  size_t open_tasks() const { return open_; }
  size_t committed() const { return committed_; }
  size_t given_up() const { return given_up_; }
  size_t stale() const { return stale_; }
  size_t quarantined() const { return quarantines_; }
  size_t fair_choices() const { return fairness_.comparisons(); }
  size_t no_worker_reports() const { return no_worker_reports_; }
  bool no_worker_reported() const { return !without_worker_.empty(); }

 private:
  struct Task {
    TaskAdded spec;
    bool open = true;
    bool fresh = true;      // never leased
    uint32_t failures = 0;  // not its own
    bool leased = false;
    bool executing = false;  // as the holder said last
    WorkerId holder = 0;
    Epoch epoch = 0;  // of the last lease
  };
  struct Worker {
    uint64_t incarnation = 0;
    std::string target;
    uint32_t slots = 0;
    bool draining = false;
    std::set<TaskId> leases;
  };

  void before(const Event& event);
  void after(const Event& event);
  void act(const SendTask& action);
  void act(const RevokeLease& action);
  void act(const TaskCommitted& action);
  void act(const TaskFailedInfra& action);
  void act(const JobStopped& action);
  void act(const TaskRequeued& action);
  void act(const CandidateQuarantined& action);
  void act(const WorkerLost& action);
  void act(const WorkerDrained& action);
  void act(const NoWorkerForTarget& action);
  void act(const NoWorkerCleared& action);
  void act(const StaleResult& action);
  void act(const TaskRefused&) { wrong("a task was refused within all limits"); }
  void act(const JobRefused&) { wrong("a job was refused within all limits"); }
  void act(const WorkerRefused&) { wrong("a worker was refused within all limits"); }
  void act(const WorkerUnknown& action);
  void act(const WorkerSuspended&) {}

  void wrong(const std::string& what);
  void end_lease(Task& task);
  void close(Task& task);
  void end_job(JobId job);
  bool valid(WorkerId worker, TaskId task, Epoch epoch) const;
  void accuse(const common::Digest& fingerprint, WorkerId worker);
  Worker* current(WorkerId id, uint64_t incarnation);

  Config config_;
  std::string wrong_;
  int64_t now_ns_ = 0;
  FairnessWatch fairness_;
  std::map<JobId, uint32_t> given_up_in_a_row_;
  std::map<TaskId, Task> tasks_;
  std::unordered_map<TaskId, common::Digest> ever_;  // tasks of all coordinators so far
  std::map<WorkerId, Worker> workers_;
  // Workers that it may have taken down, and those that said so.
  std::map<common::Digest, std::set<WorkerId>> accused_;
  std::map<common::Digest, std::set<WorkerId>> convicted_;
  std::set<common::Digest> quarantined_;
  std::set<common::Digest> kept_;
  std::set<std::pair<JobId, std::string>> without_worker_;
  const TaskResult* result_ = nullptr;  // the event, if it is one
  bool result_valid_ = false;
  bool said_stale_ = false;
  bool said_committed_ = false;
  size_t open_ = 0, leased_ = 0, committed_ = 0, given_up_ = 0, stale_ = 0;
  size_t no_worker_reports_ = 0, quarantines_ = 0;
};

}  // namespace sim
