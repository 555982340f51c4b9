#include "coordinator/farm/machine.h"

#include <algorithm>

namespace coordinator::farm {

Machine::Machine(const Config& config)
    : config_(config), quarantine_(config.killed_workers_max, config.limits.suspects_max) {}

Machine::~Machine() = default;

std::vector<Action> Machine::on_event(const Event& event, int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  actions_.clear();
  std::visit([this](const auto& known) { handle(known); }, event);
  dispatch_marked();
  return std::move(actions_);
}

void Machine::handle(const JobAdded& event) {
  if (jobs_.count(event.job) != 0) return;
  if (event.tenant.empty() || event.priority < 1 || event.priority > config_.limits.priority_max) {
    return emit(JobRefused{event.job, Refusal::kInvalid});
  }
  if (jobs_.size() >= config_.limits.jobs_max) return emit(JobRefused{event.job, Refusal::kFull});
  jobs_[event.job].spec = event;
}

bool Machine::valid(const TaskAdded& event) const {
  return !event.target.empty() && event.target.size() <= config_.limits.target_bytes_max &&
         event.run_limit_ms > 0 && event.run_limit_ms <= config_.limits.run_limit_ms_max &&
         event.cost >= 1 && event.cost <= config_.limits.cost_max && event.first_epoch >= 1;
}

void Machine::handle(const TaskAdded& event) {
  if (tasks_.count(event.task) != 0) return;
  auto refuse = [&](Refusal why) { emit(TaskRefused{event.task, event.job, why}); };
  auto found = jobs_.find(event.job);
  if (found == jobs_.end()) return refuse(Refusal::kUnknown);
  Job& job = found->second;
  if (job.cancelled) return refuse(Refusal::kCancelled);
  if (!valid(event)) return refuse(Refusal::kInvalid);
  if (quarantine_.contains(event.fingerprint)) {
    return emit(TaskCommitted{event.task, event.job, TaskOutcome::kCrash, 0, 0});
  }
  if (tasks_.size() >= config_.limits.tasks_max ||
      job.open.size() >= config_.limits.tasks_per_job_max) {
    return refuse(Refusal::kFull);
  }
  Pool* pool = pool_for(event.target);
  if (pool == nullptr) return refuse(Refusal::kFull);
  if (pool->jobs.insert(event.job).second) {
    pool->share.add(event.job, job.spec.tenant, job.spec.priority);
  }

  Task& task = tasks_[event.task];
  task.spec = event;
  task.spec.target.clear();  // the pool knows it
  task.job = &job;
  task.pool = pool;
  task.queue = &job.queues[pool->id];
  task.epoch = event.first_epoch;
  job.open.push_back(task);
  if (!event.fingerprint.is_zero()) fingerprints_[event.fingerprint].push_back(task);
  enqueue(task, false);
}

void Machine::handle(const TaskWithdrawn& event) {
  auto found = tasks_.find(event.task);
  if (found != tasks_.end()) retire(found->second);
}

void Machine::handle(const JobCancelled& event) {
  auto found = jobs_.find(event.job);
  if (found != jobs_.end()) cancel(found->second);
}

void Machine::handle(const JobRemoved& event) {
  auto found = jobs_.find(event.job);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  cancel(job);
  for (auto& [pool_id, queue] : job.queues) {
    Pool& pool = pools_.by_id.at(pool_id);
    pool.share.remove(event.job);
    pool.jobs.erase(event.job);
    drop_pool_if_unused(pool);
  }
  jobs_.erase(found);
}

void Machine::handle(const FingerprintBanned& event) {
  if (quarantine_.ban(event.fingerprint)) quarantine(event.fingerprint);
}

void Machine::handle(const Tick&) {
  if (ticks_.last_ns && now_ns_ - *ticks_.last_ns > config_.times.stall_ms * 1'000'000) {
    ticks_.judge_from_ns = after_ms(config_.times.heartbeat_timeout_ms);
  }
  ticks_.last_ns = now_ns_;
  while (std::optional<Timer> timer = timers_.pop_due(now_ns_)) {
    switch (timer->kind) {
      case TimerKind::kLease:
        lease_timer(tasks_.at(timer->id));
        break;
      case TimerKind::kParked:
        unpark(tasks_.at(timer->id));
        break;
      case TimerKind::kHeartbeat:
        worker_timer(workers_.at(timer->id));
        break;
      case TimerKind::kSuspension:
        suspension_over(workers_.at(timer->id));
        break;
      case TimerKind::kNoWorker:
        no_worker_timer(*timer);
        break;
    }
  }
}

void Machine::cancel(Job& job) {
  job.cancelled = true;
  while (!job.open.empty()) retire(*job.open.front());
}

void Machine::enqueue(Task& task, bool first) {
  task.state = TaskState::kWaiting;
  PlaceList& waiting = task.queue->waiting;
  if (first) {
    waiting.push_front(task);
  } else {
    waiting.push_back(task);
  }
  if (waiting.size() == 1) {
    task.pool->share.set_ready(task.spec.job, true);
    if (task.pool->accepting == 0) arm_no_worker(*task.pool, *task.job, *task.queue);
  }
  mark(*task.pool);
}

void Machine::dequeue(Task& task) {
  task.state = TaskState::kIdle;
  task.queue->waiting.remove(task);
  if (task.queue->waiting.empty()) {
    task.pool->share.set_ready(task.spec.job, false);
    clear_no_worker(*task.pool, *task.job, *task.queue);
  }
}

void Machine::avoid(Task& task, WorkerId worker) {
  if (task.avoided.count == task.avoided.workers.size()) {
    std::copy(task.avoided.workers.begin() + 1, task.avoided.workers.end(),
              task.avoided.workers.begin());
    --task.avoided.count;
  }
  task.avoided.workers[task.avoided.count++] = worker;
  task.avoided.until_ns = after_ms(config_.times.elsewhere_ms);
}

// Takes a task whose lease has ended back to the head of its queue, under a new epoch.
void Machine::requeue(Task& task, WorkerId from, RequeueReason reason) {
  if (!avoids(task, from)) avoid(task, from);
  task.avoided.until_ns = after_ms(config_.times.elsewhere_ms);
  emit(TaskRequeued{task.spec.task, task.spec.job, from, reason});
  enqueue(task, true);
}

void Machine::commit(Task& task, TaskOutcome outcome, Handle result, WorkerId worker) {
  if (worker != 0) task.job->given_up = 0;  // a verdict from quarantine says nothing of workers
  emit(TaskCommitted{task.spec.task, task.spec.job, outcome, result, worker});
  retire(task);
}

// Removes an open task from everything, whatever its state.
void Machine::retire(Task& task) {
  switch (task.state) {
    case TaskState::kIdle:
      break;
    case TaskState::kWaiting:
      dequeue(task);
      break;
    case TaskState::kParked:
      task.pool->parked.remove(task);
      timers_.disarm({task.timer_ns, TimerKind::kParked, task.spec.task, 0});
      break;
    case TaskState::kLeased:
      end_lease(task, Slot::kMayStillRun);
      break;
  }
  task.job->open.remove(task);
  if (!task.spec.fingerprint.is_zero()) {
    auto same = fingerprints_.find(task.spec.fingerprint);
    same->second.remove(task);
    if (same->second.empty()) fingerprints_.erase(same);
  }
  tasks_.erase(task.spec.task);
}

void Machine::quarantine(const common::Digest& fingerprint) {
  emit(CandidateQuarantined{fingerprint});
  for (;;) {
    auto same = fingerprints_.find(fingerprint);
    if (same == fingerprints_.end()) return;
    commit(*same->second.front(), TaskOutcome::kCrash, 0, 0);
  }
}

}  // namespace coordinator::farm
