#include "farm_auditor.h"

#include "common/base/cat.h"

namespace sim {

using common::cat;

void Auditor::wrong(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

std::string Auditor::audit(const Event& event, const std::vector<Action>& actions,
                           const Stats& stats, int64_t now_ns) {
  now_ns_ = now_ns;
  wrong_.clear();
  before(event);
  for (const Action& action : actions) {
    std::visit([this](const auto& known) { act(known); }, action);
  }
  after(event);
  if (stats.tasks_open != open_) {
    wrong(cat("the scheduler has ", stats.tasks_open, " open tasks, it was given ", open_));
  }
  if (stats.tasks_leased != leased_) {
    wrong(cat("the scheduler counts ", stats.tasks_leased, " leases, it granted ", leased_));
  }
  return wrong_;
}

Auditor::Worker* Auditor::current(WorkerId id, uint64_t incarnation) {
  auto found = workers_.find(id);
  if (found == workers_.end() || found->second.incarnation != incarnation) return nullptr;
  return &found->second;
}

bool Auditor::valid(WorkerId worker, TaskId id, Epoch epoch) const {
  auto found = tasks_.find(id);
  if (found == tasks_.end()) return false;
  const Task& task = found->second;
  return task.open && task.leased && task.epoch == epoch && task.holder == worker;
}

// What an event says before the scheduler answers.
void Auditor::before(const Event& event) {
  result_ = std::get_if<TaskResult>(&event);
  said_stale_ = said_committed_ = false;
  result_valid_ = result_ != nullptr && valid(result_->worker, result_->task, result_->epoch);
  if (result_valid_) {
    Task& task = tasks_.at(result_->task);
    if (result_->outcome == TaskOutcome::kCrash || result_->outcome == TaskOutcome::kHang) {
      accuse(task.spec.fingerprint, result_->worker);
      if (!task.spec.fingerprint.is_zero()) {
        convicted_[task.spec.fingerprint].insert(result_->worker);
      }
    }
    end_lease(task);
  }
  if (auto* returned = std::get_if<LeaseReturned>(&event)) {
    if (valid(returned->worker, returned->task, returned->epoch))
      end_lease(tasks_.at(returned->task));
  }
  if (auto* job = std::get_if<JobAdded>(&event)) {
    fairness_.add(job->job, job->tenant, job->priority);
  }
  if (auto* added = std::get_if<TaskAdded>(&event)) {
    auto [task, is_new] = tasks_.try_emplace(added->task);
    if (is_new) {
      task->second.spec = *added;
      ever_.emplace(added->task, added->fingerprint);
      ++open_;
      fairness_.waits(added->job, added->target, 1);
    }
  }
  if (auto* banned = std::get_if<FingerprintBanned>(&event)) {
    accused_[banned->fingerprint] = {1, 2};
  }
  if (auto* hello = std::get_if<WorkerHello>(&event)) {
    Worker* worker = current(hello->worker, hello->incarnation);
    if (worker != nullptr) worker->slots = hello->slots;
  }
  if (auto* credit = std::get_if<WorkerCredit>(&event)) {
    if (Worker* worker = current(credit->worker, credit->incarnation)) {
      worker->slots = credit->slots;
    }
  }
  if (auto* beat = std::get_if<WorkerHeartbeat>(&event)) {
    if (Worker* worker = current(beat->worker, beat->incarnation)) {
      worker->slots = beat->slots;
      for (const HeldLease& held : beat->leases) {
        if (valid(beat->worker, held.task, held.epoch)) {
          tasks_.at(held.task).executing = held.executing;
        }
      }
    }
  }
  if (auto* drain = std::get_if<WorkerDrain>(&event)) {
    if (Worker* worker = current(drain->worker, drain->incarnation)) worker->draining = true;
  }
  // A new process: known at once, so that the actions of this event may already use it. The old
  // one's leases are taken from it by WorkerLost.
  if (auto* hello = std::get_if<WorkerHello>(&event)) {
    auto found = workers_.find(hello->worker);
    if (found == workers_.end() || found->second.incarnation < hello->incarnation) {
      Worker& worker = workers_[hello->worker];
      worker.incarnation = hello->incarnation;
      worker.target = hello->target;
      worker.slots = hello->slots;
      worker.draining = false;
    }
  }
}

// What must hold once the scheduler has answered.
void Auditor::after(const Event& event) {
  if (result_ != nullptr && result_valid_ == said_stale_) {
    wrong(cat("the result of task ", result_->task, " epoch ", result_->epoch, " was ",
              result_valid_ ? "refused although valid" : "accepted although stale"));
  }
  if (result_valid_ && result_->outcome <= TaskOutcome::kWrong && !said_committed_) {
    wrong(cat("the verdict on task ", result_->task, " was not committed"));
  }
  if (result_valid_) {
    const common::Digest& fingerprint = tasks_.at(result_->task).spec.fingerprint;
    auto convicted = convicted_.find(fingerprint);
    if (convicted != convicted_.end() && convicted->second.size() >= config_.killed_workers_max &&
        quarantined_.count(fingerprint) == 0) {
      wrong("a candidate that took enough workers down was not quarantined");
    }
  }
  for (const auto& [job, given_up] : given_up_in_a_row_) {
    if (given_up >= config_.given_up_max) wrong(cat("job ", job, " was not stopped"));
  }
  if (auto* withdrawn = std::get_if<TaskWithdrawn>(&event)) {
    auto found = tasks_.find(withdrawn->task);
    if (found != tasks_.end() && found->second.open) close(found->second);
  }
  if (auto* cancelled = std::get_if<JobCancelled>(&event)) end_job(cancelled->job);
  if (auto* removed = std::get_if<JobRemoved>(&event)) end_job(removed->job);
  if (auto* gone = std::get_if<WorkerGone>(&event)) {
    if (Worker* worker = current(gone->worker, gone->incarnation)) {
      if (!worker->leases.empty()) wrong(cat("worker ", gone->worker, " left with leases"));
      workers_.erase(gone->worker);
    }
  }
}

void Auditor::end_lease(Task& task) {
  if (!task.leased) return;
  task.leased = false;
  --leased_;
  workers_.at(task.holder).leases.erase(task.spec.task);
}

void Auditor::end_job(JobId job) {
  given_up_in_a_row_.erase(job);
  for (auto& [id, task] : tasks_) {
    if (task.open && task.spec.job == job) close(task);
  }
}

void Auditor::close(Task& task) {
  end_lease(task);
  if (task.fresh) fairness_.waits(task.spec.job, task.spec.target, -1);
  task.fresh = false;
  task.open = false;
  --open_;
}

void Auditor::accuse(const common::Digest& fingerprint, WorkerId worker) {
  if (!fingerprint.is_zero()) accused_[fingerprint].insert(worker);
}

void Auditor::act(const SendTask& action) {
  auto known = tasks_.find(action.task);
  if (known == tasks_.end()) return wrong("a task was sent that was not added");
  Task& task = known->second;
  auto found = workers_.find(action.worker);
  if (found == workers_.end()) return wrong(cat("task sent to unknown worker ", action.worker));
  Worker& worker = found->second;
  std::string which = cat("task ", action.task, " epoch ", action.epoch, ": ");
  if (!task.open) wrong(which + "sent although closed");
  if (task.leased) wrong(which + "sent although leased");
  if (action.epoch <= task.epoch) wrong(which + "sent under an old epoch");
  if (worker.target != task.spec.target) wrong(which + "sent to another target");
  if (worker.draining) wrong(which + "sent to a draining worker");
  if (worker.leases.size() >= worker.slots) wrong(which + "sent beyond the slots");
  if (action.deadline_ns <= now_ns_) wrong(which + "sent with a deadline in the past");
  if (action.payload != task.spec.payload) wrong(which + "sent with another payload");
  const common::Digest& fingerprint = task.spec.fingerprint;
  if (quarantined_.count(fingerprint) != 0 || kept_.count(fingerprint) != 0) {
    wrong(which + "sent although its candidate is quarantined");
  }
  std::string unfair = fairness_.served(task.spec.job, task.spec.target, task.spec.cost);
  if (!unfair.empty()) wrong(which + unfair);
  if (task.fresh) fairness_.waits(task.spec.job, task.spec.target, -1);
  task.fresh = false;
  task.leased = true;
  task.executing = false;
  task.holder = action.worker;
  task.epoch = action.epoch;
  worker.leases.insert(action.task);
  ++leased_;
}

void Auditor::act(const RevokeLease& action) {
  auto found = tasks_.find(action.task);
  if (found == tasks_.end()) {
    if (ever_.count(action.task) == 0) wrong("revoked a task that never was");
    return;
  }
  Task& task = found->second;
  if (!task.leased || task.epoch != action.epoch || task.holder != action.worker) return;
  // An expired lease; the candidate may have hung the worker.
  if (task.executing) accuse(task.spec.fingerprint, action.worker);
  end_lease(task);
}

void Auditor::act(const TaskCommitted& action) {
  Task& task = tasks_.at(action.task);
  if (!task.open) return wrong(cat("task ", action.task, " committed although closed"));
  bool own = result_valid_ && result_->task == action.task;
  if (own) {
    said_committed_ = true;
    bool same = action.outcome == result_->outcome;
    bool killer = result_->outcome == TaskOutcome::kHang && action.outcome == TaskOutcome::kCrash;
    if (!same && !killer) wrong(cat("task ", action.task, " committed with another outcome"));
    if (action.result != result_->result) wrong("committed with another result");
    if (action.outcome == TaskOutcome::kInfra) wrong("an infra outcome was committed as a verdict");
  } else if (quarantined_.count(task.spec.fingerprint) == 0 ||
             action.outcome != TaskOutcome::kCrash || action.result != 0) {
    wrong(cat("task ", action.task, " committed without a result"));
  }
  if (own) given_up_in_a_row_[action.job] = 0;
  close(task);
  ++committed_;
}

void Auditor::act(const TaskFailedInfra& action) {
  Task& task = tasks_.at(action.task);
  if (!task.open) return wrong(cat("task ", action.task, " given up although closed"));
  if (action.failures != config_.infra_failures_max) wrong("given up too early or too late");
  close(task);
  ++given_up_;
  ++given_up_in_a_row_[action.job];
}

void Auditor::act(const JobStopped& action) {
  if (given_up_in_a_row_[action.job] != config_.given_up_max) {
    wrong(cat("job ", action.job, " was stopped too early or too late"));
  }
  end_job(action.job);
}

void Auditor::act(const TaskRequeued& action) {
  Task& task = tasks_.at(action.task);
  if (!task.open) wrong(cat("task ", action.task, " requeued although closed"));
  if (task.holder != action.worker) wrong(cat("task ", action.task, " taken from another worker"));
  bool counts = action.reason == RequeueReason::kInfra ||
                action.reason == RequeueReason::kLeaseExpired ||
                action.reason == RequeueReason::kWorkerLost;
  if (counts && ++task.failures >= config_.infra_failures_max) {
    wrong(cat("task ", action.task, " failed too often and was not given up"));
  }
  end_lease(task);
}

void Auditor::act(const CandidateQuarantined& action) {
  if (accused_[action.fingerprint].size() < config_.killed_workers_max) {
    wrong("a candidate was quarantined that did not kill enough workers");
  }
  if (!quarantined_.insert(action.fingerprint).second) wrong("quarantined twice");
  ++quarantines_;
}

void Auditor::act(const WorkerLost& action) {
  auto found = workers_.find(action.worker);
  if (found == workers_.end()) return wrong("an unknown worker was lost");
  for (TaskId id : std::set<TaskId>(found->second.leases)) {
    Task& task = tasks_.at(id);
    if (task.executing) accuse(task.spec.fingerprint, action.worker);
    end_lease(task);
  }
  if (!action.restarted) workers_.erase(found);
}

void Auditor::act(const WorkerUnknown& action) {
  if (result_ != nullptr) wrong(cat("worker ", action.worker, " asked for hello after a result"));
}

void Auditor::act(const WorkerDrained& action) {
  auto found = workers_.find(action.worker);
  if (found == workers_.end()) return wrong("an unknown worker drained");
  if (!found->second.draining) wrong("a worker drained that nobody asked to");
  if (!found->second.leases.empty()) wrong("a worker drained that holds leases");
}

void Auditor::act(const NoWorkerForTarget& action) {
  ++no_worker_reports_;
  if (!without_worker_.insert({action.job, action.target}).second) wrong("no worker, told twice");
  for (const auto& [id, worker] : workers_) {
    if (worker.target == action.target && !worker.draining && worker.slots > 0) {
      wrong(cat("no worker reported although there is worker ", id));
    }
  }
}

void Auditor::act(const NoWorkerCleared& action) {
  if (without_worker_.erase({action.job, action.target}) == 0) wrong("cleared what was not told");
}

void Auditor::act(const StaleResult& action) {
  ++stale_;
  said_stale_ = true;
  if (result_ == nullptr || result_->task != action.task || result_->epoch != action.epoch) {
    wrong("a stale result was named that did not come");
  }
}

void Auditor::restart() {
  tasks_.clear();
  workers_.clear();
  accused_.clear();
  convicted_.clear();
  quarantined_.clear();
  given_up_in_a_row_.clear();
  without_worker_.clear();
  fairness_.restart();
  leased_ = 0;
  open_ = 0;
}

}  // namespace sim
