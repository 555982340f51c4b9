#include "coordinator/service/workers/dispatcher.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;

namespace {

CandidateResult without_worker(common::TaskOutcome outcome, std::string message) {
  CandidateResult result;
  result.outcome = outcome;
  result.message = std::move(message);
  return result;
}

// Bits of a random number that leave room to count up from it.
constexpr int kTaskIdBits = 52;
constexpr int kEpochBits = 62;

constexpr const char* kQuarantineReason = "killed several workers";

}  // namespace

TaskNumbers::TaskNumbers(const common::Incarnation& incarnation)
    : first_(incarnation.high >> (64 - kTaskIdBits)),
      first_epoch_((incarnation.low >> (64 - kEpochBits)) + 1) {}

Dispatcher::Dispatcher(const DispatcherOptions& options, const common::Clock& clock,
                       cache::Store& store, Meters& meters)
    : options_(options),
      clock_(clock),
      store_(store),
      meters_(meters),
      scheduler_(options.farm),
      numbers_(options.incarnation) {}

void Dispatcher::connect(WorkerLink& workers, TaskSink& sink) {
  workers_ = &workers;
  sink_ = &sink;
}

void Dispatcher::feed(farm::Event event) {
  if (closed_) return;
  events_.push_back(std::move(event));
  pump();
}

void Dispatcher::report(farm::WorkerId worker, const common::TaskLease& lease,
                        CandidateResult result) {
  farm::Handle handle = ++results_.made;
  common::TaskOutcome outcome = result.outcome;
  results_.by_handle.emplace(handle, std::move(result));
  feed(farm::TaskResult{worker, lease.task_id, lease.epoch, outcome, handle});
}

void Dispatcher::add_job(farm::JobId job, const std::string& tenant, uint32_t priority) {
  by_job_[job];
  farm::JobAdded event;
  event.job = job;
  event.tenant = tenant;
  event.priority = priority;
  feed(std::move(event));
}

void Dispatcher::add_task(TaskSpec spec) {
  const common::Digest& fingerprint = spec.candidate->fingerprint;
  auto quarantined = store_.get_negative(fingerprint);
  if (quarantined.ok() && quarantined->has_value()) feed(farm::FingerprintBanned{fingerprint});
  farm::TaskId id = numbers_.next();
  farm::TaskAdded event;
  event.task = id;
  event.job = spec.job;
  event.target = spec.target;
  event.run_limit_ms = options_.run_limit_ms;
  event.fingerprint = fingerprint;
  event.payload = id;
  event.only = spec.only_build_at;
  event.first_epoch = numbers_.first_epoch();
  by_job_[spec.job].insert(id);
  Open task{std::move(spec)};
  task.times = {id, clock_.now_ns(), 0, {}};
  tasks_.emplace(id, std::move(task));
  feed(std::move(event));
}

// The oldest that each worker has.
std::unordered_set<farm::TaskId> Dispatcher::begun_tasks() const {
  std::map<farm::WorkerId, std::set<std::pair<int64_t, farm::TaskId>>> held;
  for (const auto& [id, task] : tasks_) {
    const std::vector<TimelineLease>& leases = task.times.leases;
    bool is_held = !leases.empty() && leases.back().ended_ns == 0;
    if (is_held) held[task.worker].emplace(task.sent_ns, id);
  }
  std::unordered_set<farm::TaskId> begun;
  for (const auto& [worker, tasks] : held) {
    size_t count = 0;
    for (const auto& [sent_ns, id] : tasks) {
      if (count++ < kBegunByWorker) begun.insert(id);
    }
  }
  return begun;
}

void Dispatcher::give_up_tasks(farm::JobId job, GiveUp which,
                               const std::function<bool(const TaskSpec&)>& is_given_up,
                               const std::string& message) {
  auto found = by_job_.find(job);
  if (found == by_job_.end()) return;
  std::unordered_set<farm::TaskId> begun;
  if (which == GiveUp::kWaiting) begun = begun_tasks();
  std::vector<farm::TaskId> given_up;
  for (farm::TaskId id : found->second) {
    if (!begun.contains(id) && is_given_up(tasks_.at(id).spec)) given_up.push_back(id);
  }
  // By number: in which order results reach a search must not depend on a hash table.
  std::sort(given_up.begin(), given_up.end());
  for (farm::TaskId id : given_up) {
    // A second worker that does not answer is at fault, and none is where a search ends.
    const bool is_withdrawn = tasks_.at(id).spec.only_build_at == 0;
    end_task(id, without_worker(common::TaskOutcome::kInfra, message), is_withdrawn);
    feed(farm::TaskWithdrawn{id});
  }
}

void Dispatcher::remove_job(farm::JobId job) {
  auto found = by_job_.find(job);
  if (found == by_job_.end()) return;
  for (farm::TaskId task : found->second) tasks_.erase(task);
  by_job_.erase(found);
  std::erase_if(done_, [job](const TaskDone& done) { return done.job == job; });
  feed(farm::JobRemoved{job});
}

size_t Dispatcher::open_tasks(farm::JobId job) const {
  auto found = by_job_.find(job);
  return found == by_job_.end() ? 0 : found->second.size();
}

const TaskSpec* Dispatcher::task(uint64_t id) const {
  auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : &found->second.spec;
}

void Dispatcher::pump() {
  if (pumping_) return;
  pumping_ = true;
  while (!events_.empty() || !done_.empty()) {
    if (!events_.empty()) {
      farm::Event event = std::move(events_.front());
      events_.pop_front();
      for (const farm::Action& action : scheduler_.on_event(event, clock_.now_ns())) {
        carry_out(action);
      }
      // A result that was not committed is not needed again.
      if (auto* result = std::get_if<farm::TaskResult>(&event))
        results_.by_handle.erase(result->result);
      continue;
    }
    TaskDone done = std::move(done_.front());
    done_.pop_front();
    sink_->task_done(std::move(done));
  }
  pumping_ = false;
}

void Dispatcher::carry_out(const farm::Action& action) {
  std::visit([this](const auto& one) { on(one); }, action);
}

void Dispatcher::on(const farm::SendTask& action) {
  auto found = tasks_.find(action.task);
  if (found == tasks_.end()) return;  // its job was removed; the scheduler learns of it next
  Open& task = found->second;
  task.spent_ns = worker_ns(task);
  task.sent_ns = clock_.now_ns();
  task.worker = action.worker;
  task.shares = std::max<uint32_t>(workers_->slots_of(action.worker), 1);
  std::vector<TimelineLease>& leases = task.times.leases;
  meters_.task_leased(leases.empty(),
                      static_cast<double>(task.sent_ns - task.times.queued_ns) * 1e-9);
  if (leases.size() >= kTimelineLeasesMax) leases.pop_back();
  leases.push_back({workers_->name(action.worker), task.sent_ns, 0, {}});
  int64_t left_ms = (action.deadline_ns - clock_.now_ns()) / 1'000'000;
  // The worker is to notice a hang before the lease ends here.
  int64_t limit_ms =
      std::clamp<int64_t>(left_ms - options_.farm.times.lease_slack_ms, 1, common::kDeadlineMsMax);
  common::Task message;
  message.lease = {action.task, action.epoch};
  message.attempt = action.attempt;
  message.deadline_ms = static_cast<uint32_t>(limit_ms);
  const Candidate& candidate = *task.spec.candidate;
  message.payload = candidate.payload;
  message.job = action.job;
  message.only_build = task.spec.only_build_at != 0;
  if (!message.only_build) message.blobs = {candidate.graph};
  bool is_compared = candidate.may_become_plan() && options_.has_second_builds &&
                     workers_->has_twin(action.worker);
  task.is_reproducible = message.only_build || is_compared;
  message.reproducible = task.is_reproducible;
  workers_->send_task(action.worker, message);
}

void Dispatcher::on(const farm::RevokeLease& action) {
  workers_->revoke(action.worker, {action.task, action.epoch});
}

void Dispatcher::on(const farm::TaskCommitted& action) {
  auto found = results_.by_handle.find(action.result);
  if (found == results_.by_handle.end()) {
    return end_task(action.task, without_worker(common::TaskOutcome::kCrash,
                                                cat("quarantined: it ", kQuarantineReason)));
  }
  end_task(action.task, std::move(found->second));
}

void Dispatcher::on(const farm::TaskFailedInfra& action) {
  common::log_warning(
      cat("a task is given up after ", action.failures, " failures that were not its own"),
      {{"job", action.job}, {"task", action.task}});
  end_task(action.task, without_worker(common::TaskOutcome::kInfra,
                                       cat("given up after ", action.failures,
                                           " failures of workers; see their logs")));
}

void Dispatcher::on(const farm::JobStopped& action) {
  sink_->job_stopped(action.job, action.given_up);
}

void Dispatcher::on(const farm::TaskRequeued& action) {
  meters_.task_requeued(farm::requeue_reason_name(action.reason));
  auto found = tasks_.find(action.task);
  if (found != tasks_.end()) {
    end_lease(found->second, farm::requeue_reason_name(action.reason));
  }
  // A worker that goes may hold thousands.
  common::log_debug(
      cat("a task goes to another worker: ", farm::requeue_reason_name(action.reason)),
      {{"job", action.job}, {"task", action.task}, {"worker", workers_->name(action.worker)}});
}

void Dispatcher::on(const farm::TaskRefused& action) {
  end_task(action.task,
           without_worker(common::TaskOutcome::kInfra,
                          cat("the scheduler refused it: ", farm::refusal_name(action.refusal))));
}

void Dispatcher::on(const farm::JobRefused& action) {
  // Its tasks are refused next, and the job fails of that.
  common::log_error(cat("the scheduler refused a job: ", farm::refusal_name(action.refusal)),
                    {{"job", action.job}});
}

void Dispatcher::on(const farm::WorkerRefused& action) {
  workers_->refused(action.worker, action.refusal);
}

void Dispatcher::on(const farm::CandidateQuarantined& action) {
  meters_.candidate_quarantined();
  common::log_warning(cat("a candidate is quarantined: it ", kQuarantineReason),
                      {{"candidate", action.fingerprint.hex()}});
  auto status = store_.put_negative(action.fingerprint, {kQuarantineReason, 0});
  if (!status.ok()) common::log_error(cat("cannot keep it: ", status.error().message));
}

void Dispatcher::on(const farm::WorkerLost& action) {
  meters_.worker_lost();
  workers_->lost(action.worker, action.restarted);
}

void Dispatcher::on(const farm::WorkerUnknown& action) { workers_->ask_for_hello(action.worker); }

void Dispatcher::on(const farm::WorkerSuspended& action) {
  int64_t pause_ms = (action.until_ns - clock_.now_ns()) / 1'000'000;
  common::log_warning(cat("a worker keeps failing: it gets no work for ", pause_ms, " ms"),
                      {{"worker", workers_->name(action.worker)}});
}

void Dispatcher::on(const farm::NoWorkerForTarget& action) {
  common::log_warning("a job waits: no worker has its target",
                      {{"job", action.job}, {"target", action.target}});
}

void Dispatcher::on(const farm::StaleResult& action) {
  meters_.result_stale();
  common::log_debug("a result came under a void lease and was dropped",
                    {{"task", action.task}, {"worker", workers_->name(action.worker)}});
}

// From its sending to now: what a worker that was lost took of it is not known better.
int64_t Dispatcher::worker_ns(const Open& task) const {
  if (task.sent_ns == 0) return task.spent_ns;
  return task.spent_ns + (clock_.now_ns() - task.sent_ns) / task.shares;
}

void Dispatcher::end_lease(Open& task, const char* how) {
  std::vector<TimelineLease>& leases = task.times.leases;
  if (leases.empty() || leases.back().ended_ns != 0) return;
  leases.back().ended_ns = clock_.now_ns();
  leases.back().end = how;
}

void Dispatcher::end_task(farm::TaskId id, CandidateResult result, bool is_withdrawn) {
  auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  Open& task = found->second;
  if (is_withdrawn) {
    meters_.task_withdrawn();
  } else {
    meters_.task_ended(result.outcome, result.report, result.spans);
  }
  end_lease(task, "result");
  task.times.ended_ns = clock_.now_ns();
  TaskDone done{task.spec.job,       std::move(task.spec.candidate), std::move(result),
                worker_ns(task),     std::move(task.times),          task.spec.only_build_at != 0,
                task.is_reproducible};
  by_job_[done.job].erase(id);
  tasks_.erase(found);
  done_.push_back(std::move(done));
}

}  // namespace coordinator::service
