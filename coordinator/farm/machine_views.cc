// Looking at the machine from outside, and the checks that tests run on it.
#include <algorithm>

#include "common/base/check.h"
#include "coordinator/farm/machine.h"

namespace coordinator::farm {

Stats Machine::stats() const { return {workers_.size(), jobs_.size(), tasks_.size(), leased_}; }

std::vector<WorkerView> Machine::workers() const {
  std::vector<WorkerView> views;
  views.reserve(workers_.size());
  for (const auto& [id, worker] : workers_) {
    views.push_back({id, worker.pool->target, worker.slots, worker.leases.size(), worker.draining,
                     worker.suspended, worker.last_seen_ns});
  }
  std::sort(views.begin(), views.end(),
            [](const WorkerView& a, const WorkerView& b) { return a.worker < b.worker; });
  return views;
}

std::vector<JobView> Machine::jobs() const {
  std::vector<JobView> views;
  views.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) {
    JobView view{id, job.spec.tenant, job.spec.priority, job.open.size(), job.leased, job.cancelled,
                 {}};
    for (const auto& [pool, queue] : job.queues) {
      if (queue.no_worker_reported)
        view.targets_without_worker.push_back(pools_.by_id.at(pool).target);
    }
    views.push_back(std::move(view));
  }
  std::sort(views.begin(), views.end(),
            [](const JobView& a, const JobView& b) { return a.job < b.job; });
  return views;
}

std::map<std::string, size_t> Machine::tasks_waiting() const {
  std::map<std::string, size_t> waiting;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [pool, queue] : job.queues) {
      waiting[pools_.by_id.at(pool).target] += queue.waiting.size();
    }
  }
  return waiting;
}

void Machine::check_invariants() const {
  size_t leased = 0, waiting = 0, parked = 0, timers = 0, fingerprinted = 0;
  for (const auto& [id, task] : tasks_) {
    LFARM_CHECK(task.state != TaskState::kIdle, "an open task waits, is parked or is leased");
    LFARM_CHECK((task.lease.holder != nullptr) == (task.state == TaskState::kLeased), "holder");
    leased += task.state == TaskState::kLeased;
    waiting += task.state == TaskState::kWaiting;
    parked += task.state == TaskState::kParked;
    fingerprinted += !task.spec.fingerprint.is_zero();
    LFARM_CHECK(!quarantine_.contains(task.spec.fingerprint), "a quarantined task is open");
    LFARM_CHECK(task.infra_failures < config_.infra_failures_max, "a task outlived its failures");
  }
  LFARM_CHECK(leased == leased_, "count of leases");
  timers += leased + parked;

  size_t held = 0, open = 0, queued = 0, aside = 0, listed = 0;
  for (const auto& [id, worker] : workers_) {
    held += worker.leases.size();
    LFARM_CHECK(!worker.leaving, "a worker left and is still known");
    LFARM_CHECK(worker.in_pool.is_free == worker.free(),
                "free workers are offered, others are not");
    LFARM_CHECK(worker.in_pool.is_counted == worker.accepting(), "count of accepting workers");
    timers += 1 + worker.suspended;
  }
  for (const auto& [id, job] : jobs_) {
    open += job.open.size();
    LFARM_CHECK(!job.cancelled || job.open.empty(), "a cancelled job has open tasks");
    for (const auto& [pool_id, queue] : job.queues) {
      const Pool& pool = pools_.by_id.at(pool_id);
      queued += queue.waiting.size();
      timers += queue.no_worker_armed;
      LFARM_CHECK(pool.jobs.count(id) != 0 && pool.share.contains(id), "a queue has its pool");
      bool stranded = pool.accepting == 0 && !queue.waiting.empty();
      LFARM_CHECK(stranded == (queue.no_worker_armed || queue.no_worker_reported),
                  "a job without workers is timed or reported");
    }
  }
  for (const auto& [id, pool] : pools_.by_id) {
    aside += pool.parked.size();
    LFARM_CHECK(pool.free.empty() || pool.share.empty(), "work and a free slot did not meet");
    LFARM_CHECK(pool.workers != 0 || !pool.jobs.empty(), "an unused pool is kept");
    LFARM_CHECK(pool.accepting != 0 || pool.parked.empty(), "a task is parked for nobody");
  }
  for (const auto& [fingerprint, list] : fingerprints_) listed += list.size();
  LFARM_CHECK(held == leased && open == tasks_.size(), "leases and open tasks are listed once");
  LFARM_CHECK(queued == waiting && aside == parked, "waiting and parked tasks are listed once");
  LFARM_CHECK(listed == fingerprinted, "fingerprints list their open tasks");
  LFARM_CHECK(timers == timers_.size(), "every deadline has one timer");
}

}  // namespace coordinator::farm
