// Workers: arrival, heartbeats, suspension, departure, and the pools they form.
#include <algorithm>

#include "coordinator/farm/machine.h"

namespace coordinator::farm {

void Machine::handle(const WorkerHello& event) {
  if (event.target.empty() || event.target.size() > config_.limits.target_bytes_max) {
    return emit(WorkerRefused{event.worker, Refusal::kInvalid});
  }
  auto found = workers_.find(event.worker);
  if (found != workers_.end()) {
    Worker& worker = found->second;
    if (event.incarnation < worker.incarnation) return;
    if (event.incarnation == worker.incarnation && event.target == worker.pool->target) {
      worker.last_seen_ns = now_ns_;
      return set_slots(worker, event.slots);
    }
    remove_worker(worker, Departure::kRestarted);
  }
  add_worker(event);
}

void Machine::add_worker(const WorkerHello& event) {
  if (workers_.size() >= config_.limits.workers_max) {
    return emit(WorkerRefused{event.worker, Refusal::kFull});
  }
  Pool* pool = pool_for(event.target);
  if (pool == nullptr) return emit(WorkerRefused{event.worker, Refusal::kFull});
  ++pool->workers;
  Worker& worker = workers_[event.worker];
  worker.id = event.worker;
  worker.incarnation = event.incarnation;
  worker.pool = pool;
  worker.last_seen_ns = now_ns_;
  worker.heartbeat_timer_ns = after_ms(config_.times.heartbeat_timeout_ms);
  timers_.arm({worker.heartbeat_timer_ns, TimerKind::kHeartbeat, worker.id, 0});
  set_slots(worker, event.slots);
}

// The worker if it is known under this incarnation, else null.
Worker* Machine::current(WorkerId id, uint64_t incarnation) {
  auto found = workers_.find(id);
  if (found != workers_.end()) {
    if (found->second.incarnation == incarnation) return &found->second;
    if (found->second.incarnation > incarnation) return nullptr;
  }
  emit(WorkerUnknown{id});
  return nullptr;
}

void Machine::set_slots(Worker& worker, uint32_t slots) {
  worker.slots = std::min(slots, config_.limits.slots_max);
  refresh(worker);
}

void Machine::handle(const WorkerCredit& event) {
  Worker* worker = current(event.worker, event.incarnation);
  if (worker == nullptr) return;
  worker->last_seen_ns = now_ns_;
  set_slots(*worker, event.slots);
}

void Machine::handle(const WorkerHeartbeat& event) {
  Worker* worker = current(event.worker, event.incarnation);
  if (worker == nullptr) return;
  worker->last_seen_ns = now_ns_;
  // More leases than two full sets is nonsense, whoever sent it.
  size_t believed = std::min<size_t>(event.leases.size(), size_t{2} * config_.limits.slots_max);
  for (size_t i = 0; i < believed; ++i) {
    const HeldLease& held = event.leases[i];
    if (Task* task = leased(event.worker, held.task, held.epoch)) {
      task->lease.executing = held.executing;
      task->lease.end_ns = std::min(after_ms(config_.times.lease_ms), task->lease.hard_deadline_ns);
    } else {
      // Also a lease of an earlier coordinator: it holds a slot until the worker drops it.
      worker->revoked[{held.task, held.epoch}] = now_ns_;
      emit(RevokeLease{event.worker, held.task, held.epoch});
    }
  }
  // A heartbeat may have left before the lease arrived: silence counts only after a while.
  for (auto it = worker->revoked.begin(); it != worker->revoked.end();) {
    bool settled = now_ns_ - it->second >= config_.times.settle_ms * 1'000'000;
    it = settled ? worker->revoked.erase(it) : std::next(it);
  }
  set_slots(*worker, event.slots);
}

void Machine::handle(const WorkerDrain& event) {
  Worker* worker = current(event.worker, event.incarnation);
  if (worker == nullptr) return;
  worker->last_seen_ns = now_ns_;
  worker->draining = true;
  refresh(*worker);
  tell_drained(*worker);
}

void Machine::handle(const WorkerGone& event) {
  auto found = workers_.find(event.worker);
  if (found == workers_.end() || found->second.incarnation != event.incarnation) return;
  remove_worker(found->second, event.clean ? Departure::kClean : Departure::kLost);
}

void Machine::tell_drained(Worker& worker) {
  if (worker.draining && !worker.leaving && worker.leases.empty()) emit(WorkerDrained{worker.id});
}

// Many losses at once are the network's or the site's doing.
bool Machine::loss_is_blamed() {
  losses_ns_.push_back(now_ns_);
  int64_t window_ns = config_.times.heartbeat_timeout_ms * 1'000'000;
  while (now_ns_ - losses_ns_.front() > window_ns) losses_ns_.pop_front();
  return losses_ns_.size() <= config_.blamed_losses_max;
}

void Machine::remove_worker(Worker& worker, Departure departure) {
  WorkerId id = worker.id;
  bool clean = departure == Departure::kClean;
  bool blamed = !clean && loss_is_blamed();
  if (!clean) emit(WorkerLost{id, departure == Departure::kRestarted});
  worker.leaving = true;
  refresh(worker);
  while (!worker.leases.empty()) {
    Task& task = *worker.leases.front();
    common::Digest fingerprint = task.spec.fingerprint;
    bool suspect = blamed && task.lease.executing;
    end_lease(task, Slot::kFree);
    if (suspect && quarantine_.blame(fingerprint, id)) {
      quarantine(fingerprint);
    } else if (clean) {
      requeue(task, id, RequeueReason::kReturned);
    } else {
      infra_failure(task, id, RequeueReason::kWorkerLost);
    }
  }
  timers_.disarm({worker.heartbeat_timer_ns, TimerKind::kHeartbeat, id, 0});
  if (worker.suspended) {
    timers_.disarm({worker.suspended_until_ns, TimerKind::kSuspension, id, 0});
  }
  Pool& pool = *worker.pool;
  --pool.workers;
  workers_.erase(id);
  drop_pool_if_unused(pool);
}

void Machine::worker_timer(Worker& worker) {
  int64_t end_ns = worker.last_seen_ns + config_.times.heartbeat_timeout_ms * 1'000'000;
  end_ns = std::max(end_ns, ticks_.judge_from_ns);
  if (now_ns_ >= end_ns) return remove_worker(worker, Departure::kLost);
  worker.heartbeat_timer_ns = end_ns;
  timers_.arm({end_ns, TimerKind::kHeartbeat, worker.id, 0});
}

void Machine::strike(Worker& worker) {
  ++worker.strikes;
  if (worker.suspended || worker.strikes < config_.strikes_max) return;
  uint32_t doublings = std::min(worker.strikes - config_.strikes_max, 20u);
  int64_t pause_ms =
      std::min(config_.times.suspend_ms_min << doublings, config_.times.suspend_ms_max);
  worker.suspended = true;
  worker.suspended_until_ns = after_ms(pause_ms);
  timers_.arm({worker.suspended_until_ns, TimerKind::kSuspension, worker.id, 0});
  emit(WorkerSuspended{worker.id, worker.suspended_until_ns});
  refresh(worker);
}

void Machine::suspension_over(Worker& worker) {
  worker.suspended = false;
  refresh(worker);
}

// Brings the pool's view of the worker up to date; to be called after any change of it.
void Machine::refresh(Worker& worker) {
  Pool& pool = *worker.pool;
  bool free = worker.free();
  if (worker.in_pool.is_free && (!free || worker.in_pool.free_key != worker.used())) {
    pool.free.erase({worker.in_pool.free_key, worker.id});
    worker.in_pool.is_free = false;
  }
  count_accepting(worker);
  if (!free) return;
  if (!worker.in_pool.is_free) {
    worker.in_pool.is_free = true;
    worker.in_pool.free_key = worker.used();
    pool.free.emplace(worker.in_pool.free_key, worker.id);
  }
  unpark_for(worker);
  mark(pool);
}

void Machine::count_accepting(Worker& worker) {
  Pool& pool = *worker.pool;
  if (worker.in_pool.is_counted == worker.accepting()) return;
  worker.in_pool.is_counted = worker.accepting();
  pool.accepting += worker.in_pool.is_counted ? 1 : -1;
  if (worker.in_pool.is_counted && pool.accepting == 1) {
    for (JobId id : pool.jobs) {
      Job& job = jobs_.at(id);
      clear_no_worker(pool, job, job.queues.at(pool.id));
    }
  }
  if (pool.accepting != 0) return;
  while (!pool.parked.empty()) unpark(*pool.parked.front());
  for (JobId id : pool.jobs) {
    Job& job = jobs_.at(id);
    Queue& queue = job.queues.at(pool.id);
    if (!queue.waiting.empty()) arm_no_worker(pool, job, queue);
  }
}

// Null when there are too many targets.
Pool* Machine::pool_for(const std::string& target) {
  auto found = pools_.ids.find(target);
  if (found != pools_.ids.end()) return &pools_.by_id.at(found->second);
  if (pools_.by_id.size() >= config_.limits.targets_max) return nullptr;
  uint64_t id = ++pools_.made;
  pools_.ids.emplace(target, id);
  Pool& pool = pools_.by_id[id];
  pool.id = id;
  pool.target = target;
  return &pool;
}

void Machine::drop_pool_if_unused(Pool& pool) {
  if (pool.workers != 0 || !pool.jobs.empty()) return;
  pools_.ids.erase(pool.target);
  pools_.by_id.erase(pool.id);
}

void Machine::arm_no_worker(Pool& pool, Job& job, Queue& queue) {
  if (queue.no_worker_armed || queue.no_worker_reported) return;
  queue.no_worker_armed = true;
  queue.no_worker_ns = after_ms(config_.times.no_worker_grace_ms);
  timers_.arm({queue.no_worker_ns, TimerKind::kNoWorker, job.spec.job, pool.id});
}

void Machine::clear_no_worker(Pool& pool, Job& job, Queue& queue) {
  if (queue.no_worker_armed) {
    timers_.disarm({queue.no_worker_ns, TimerKind::kNoWorker, job.spec.job, pool.id});
  }
  if (queue.no_worker_reported) emit(NoWorkerCleared{job.spec.job, pool.target});
  queue.no_worker_armed = false;
  queue.no_worker_reported = false;
}

void Machine::no_worker_timer(const Timer& timer) {
  Queue& queue = jobs_.at(timer.id).queues.at(timer.detail);
  queue.no_worker_armed = false;
  queue.no_worker_reported = true;
  emit(NoWorkerForTarget{timer.id, pools_.by_id.at(timer.detail).target});
}

}  // namespace coordinator::farm
