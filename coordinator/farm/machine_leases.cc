// Leases: granting, ending, judging, and the meeting of work and free slots.
#include <algorithm>

#include "coordinator/farm/machine.h"

namespace coordinator::farm {

// The task if this very lease is valid, else null.
Task* Machine::leased(WorkerId worker, TaskId id, Epoch epoch) {
  auto found = tasks_.find(id);
  if (found == tasks_.end()) return nullptr;
  Task& task = found->second;
  bool valid =
      task.state == TaskState::kLeased && task.epoch == epoch && task.lease.holder->id == worker;
  return valid ? &task : nullptr;
}

void Machine::forget_revoked(WorkerId worker, TaskId task, Epoch epoch) {
  auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  if (found->second.revoked.erase({task, epoch}) != 0) refresh(found->second);
}

void Machine::handle(const LeaseReturned& event) {
  Task* task = leased(event.worker, event.task, event.epoch);
  if (task == nullptr) return forget_revoked(event.worker, event.task, event.epoch);
  Worker& worker = *task->lease.holder;
  // A worker that takes leases only to return them would spin for ever.
  if (!worker.draining) strike(worker);
  end_lease(*task, Slot::kFree);
  requeue(*task, event.worker, RequeueReason::kReturned);
}

void Machine::handle(const TaskResult& event) {
  Task* task = leased(event.worker, event.task, event.epoch);
  if (task == nullptr) {
    emit(StaleResult{event.worker, event.task, event.epoch});
    return forget_revoked(event.worker, event.task, event.epoch);
  }
  Worker& worker = *task->lease.holder;
  switch (event.outcome) {
    case TaskOutcome::kOk:
    case TaskOutcome::kCompileError:
    case TaskOutcome::kWrong:
      worker.strikes = 0;
      end_lease(*task, Slot::kFree);
      commit(*task, event.outcome, event.result, event.worker);
      break;
    case TaskOutcome::kCrash:
    case TaskOutcome::kHang:
      end_lease(*task, Slot::kFree);
      judged_crash(*task, worker, event);
      break;
    case TaskOutcome::kInfra:
      strike(worker);
      end_lease(*task, Slot::kFree);
      infra_failure(*task, event.worker, RequeueReason::kInfra);
      break;
  }
}

void Machine::judged_crash(Task& task, Worker& worker, const TaskResult& event) {
  common::Digest fingerprint = task.spec.fingerprint;
  if (quarantine_.blame(fingerprint, worker.id)) {
    commit(task, TaskOutcome::kCrash, event.result, worker.id);
    return quarantine(fingerprint);
  }
  ++task.crashes;
  // The worker may be the one that is sick: one report is not a verdict if there is a witness.
  if (config_.confirm_crashes && task.crashes < 2 && task.spec.only == 0) {
    if (!avoids(task, worker.id)) avoid(task, worker.id);
    if (others_accept(*task.pool, task)) {
      return requeue(task, worker.id, RequeueReason::kUnconfirmedCrash);
    }
  }
  commit(task, event.outcome, event.result, worker.id);
}

void Machine::infra_failure(Task& task, WorkerId worker, RequeueReason reason) {
  if (++task.infra_failures < config_.infra_failures_max) return requeue(task, worker, reason);
  emit(TaskFailedInfra{task.spec.task, task.spec.job, task.infra_failures});
  Job& job = *task.job;
  retire(task);
  if (job.cancelled || ++job.given_up < config_.given_up_max) return;
  emit(JobStopped{job.spec.job, job.given_up});
  cancel(job);
}

void Machine::grant(Task& task, Worker& worker) {
  task.state = TaskState::kLeased;
  task.lease.holder = &worker;
  task.lease.executing = false;
  ++task.attempts;
  ++task.job->leased;
  ++leased_;
  task.lease.hard_deadline_ns = after_ms(task.spec.run_limit_ms + config_.times.lease_slack_ms);
  task.lease.end_ns = std::min(after_ms(config_.times.lease_ms), task.lease.hard_deadline_ns);
  task.timer_ns = task.lease.end_ns;
  timers_.arm({task.timer_ns, TimerKind::kLease, task.spec.task, 0});
  worker.leases.push_back(task);
  refresh(worker);
  emit(SendTask{worker.id, task.spec.task, task.spec.job, task.epoch, task.attempts,
                task.lease.hard_deadline_ns, task.spec.payload});
}

// The epoch grows here, so that nothing the old lease still sends can count.
void Machine::end_lease(Task& task, Slot slot) {
  Worker& worker = *task.lease.holder;
  worker.leases.remove(task);
  timers_.disarm({task.timer_ns, TimerKind::kLease, task.spec.task, 0});
  if (slot == Slot::kMayStillRun && !worker.leaving) {
    worker.revoked.emplace(std::make_pair(task.spec.task, task.epoch), now_ns_);
    emit(RevokeLease{worker.id, task.spec.task, task.epoch});
  }
  task.state = TaskState::kIdle;
  task.lease.holder = nullptr;
  ++task.epoch;
  --task.job->leased;
  --leased_;
  refresh(worker);
  tell_drained(worker);
}

void Machine::lease_timer(Task& task) {
  int64_t end_ns = std::max(task.lease.end_ns, ticks_.judge_from_ns);
  if (now_ns_ < end_ns) {
    task.timer_ns = end_ns;
    return timers_.arm({end_ns, TimerKind::kLease, task.spec.task, 0});
  }
  Worker& worker = *task.lease.holder;
  common::Digest fingerprint = task.spec.fingerprint;
  bool overran = task.lease.executing && now_ns_ >= task.lease.hard_deadline_ns;
  strike(worker);
  end_lease(task, Slot::kMayStillRun);
  // The worker should have killed the candidate long ago: it hung the worker itself.
  if (overran && quarantine_.blame(fingerprint, worker.id)) return quarantine(fingerprint);
  infra_failure(task, worker.id, RequeueReason::kLeaseExpired);
}

bool Machine::may_take(const Task& task, WorkerId worker) const {
  return task.spec.only == 0 ? !avoids(task, worker) : task.spec.only == worker;
}

bool Machine::avoids(const Task& task, WorkerId worker) const {
  auto end = task.avoided.workers.begin() + task.avoided.count;
  return std::find(task.avoided.workers.begin(), end, worker) != end;
}

// Whether the pool has a worker, busy or not, that has not failed the task.
bool Machine::others_accept(const Pool& pool, const Task& task) const {
  size_t failed = 0;
  for (uint32_t i = 0; i < task.avoided.count; ++i) {
    auto found = workers_.find(task.avoided.workers[i]);
    if (found == workers_.end()) continue;
    if (found->second.pool == &pool && found->second.accepting()) ++failed;
  }
  return pool.accepting > failed;
}

// The least loaded free worker that has not failed the task; null when it should wait for one.
Worker* Machine::choose_worker(Pool& pool, const Task& task) {
  if (task.spec.only != 0) {
    auto found = workers_.find(task.spec.only);
    bool is_free = found != workers_.end() && found->second.pool == &pool && found->second.free();
    return is_free ? &found->second : nullptr;
  }
  Worker& least_loaded = workers_.at(pool.free.begin()->second);
  if (task.avoided.count == 0 || now_ns_ >= task.avoided.until_ns) return &least_loaded;
  // At most avoided_count workers are passed over.
  for (const auto& [used, id] : pool.free) {
    if (!avoids(task, id)) return &workers_.at(id);
  }
  return others_accept(pool, task) ? nullptr : &least_loaded;
}

void Machine::park(Task& task) {
  dequeue(task);
  task.state = TaskState::kParked;
  bool is_avoiding = now_ns_ < task.avoided.until_ns;
  task.timer_ns = is_avoiding ? task.avoided.until_ns : after_ms(config_.times.elsewhere_ms);
  task.pool->parked.push_back(task);
  timers_.arm({task.timer_ns, TimerKind::kParked, task.spec.task, 0});
}

void Machine::unpark(Task& task) {
  task.pool->parked.remove(task);
  timers_.disarm({task.timer_ns, TimerKind::kParked, task.spec.task, 0});
  enqueue(task, true);
}

// Brings back parked tasks that this free worker may take. Looks at a few only: the others have
// their timers.
void Machine::unpark_for(Worker& worker) {
  constexpr size_t kLooks = 4;
  PlaceList& parked = worker.pool->parked;
  for (size_t looks = std::min(kLooks, parked.size()); looks > 0; --looks) {
    Task& task = *parked.front();
    if (may_take(task, worker.id)) {
      unpark(task);
    } else {
      parked.remove(task);
      parked.push_back(task);
    }
  }
}

void Machine::dispatch(Pool& pool) {
  while (!pool.free.empty() && !pool.share.empty()) {
    JobId job = pool.share.next();
    Task& task = *jobs_.at(job).queues.at(pool.id).waiting.front();
    Worker* worker = choose_worker(pool, task);
    if (worker == nullptr) {
      park(task);
      continue;
    }
    pool.share.charge(job, task.spec.cost);
    dequeue(task);
    grant(task, *worker);
  }
}

void Machine::dispatch_marked() {
  while (!marked_.empty()) {
    uint64_t id = *marked_.begin();
    marked_.erase(marked_.begin());
    auto pool = pools_.by_id.find(id);
    if (pool != pools_.by_id.end()) dispatch(pool->second);
  }
}

}  // namespace coordinator::farm
