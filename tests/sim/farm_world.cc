#include "farm_world.h"

#include <algorithm>
#include <cstdio>

#include "common/base/cat.h"
#include "common/base/hash64.h"

namespace sim {

using common::cat;

namespace {

constexpr int64_t kRunLimitMs = 3'000;
const std::vector<std::string> kTargets = {"cpu", "cuda"};

Config config_of_a_fast_farm() {
  Config config;
  config.heartbeat_timeout_ms = 5'000;
  config.lease_ms = 8'000;
  config.lease_slack_ms = 6'000;
  config.elsewhere_ms = 2'000;
  config.no_worker_grace_ms = 10'000;
  config.infra_failures_max = 6;
  config.suspend_ms_min = 500;
  config.suspend_ms_max = 4'000;
  return config;
}

struct Describe {
  std::string operator()(const WorkerHello& e) const {
    return cat("hello worker ", e.worker, " incarnation ", e.incarnation, " slots ", e.slots);
  }
  std::string operator()(const WorkerCredit& e) const {
    return cat("credit worker ", e.worker, " slots ", e.slots);
  }
  std::string operator()(const WorkerHeartbeat& e) const {
    std::string text = cat("heartbeat worker ", e.worker, " slots ", e.slots, " leases");
    for (const HeldLease& held : e.leases) text += cat(' ', held.task, '/', held.epoch);
    return text;
  }
  std::string operator()(const WorkerDrain& e) const { return cat("drain worker ", e.worker); }
  std::string operator()(const WorkerGone& e) const {
    return cat("gone worker ", e.worker, " clean ", e.clean);
  }
  std::string operator()(const LeaseReturned& e) const {
    return cat("returned ", e.task, '/', e.epoch, " worker ", e.worker);
  }
  std::string operator()(const JobAdded& e) const { return cat("job ", e.job, ' ', e.tenant); }
  std::string operator()(const TaskAdded& e) const {
    return cat("task ", e.task, " job ", e.job, ' ', e.target, " epoch ", e.first_epoch);
  }
  std::string operator()(const TaskResult& e) const {
    return cat("result ", e.task, '/', e.epoch, " worker ", e.worker, ' ', outcome_name(e.outcome));
  }
  std::string operator()(const JobCancelled& e) const { return cat("cancelled job ", e.job); }
  std::string operator()(const JobRemoved& e) const { return cat("removed job ", e.job); }
  std::string operator()(const FingerprintBanned& e) const {
    return cat("banned ", e.fingerprint.short_hex());
  }
  std::string operator()(const Tick&) const { return "tick"; }

  std::string operator()(const SendTask& a) const {
    return cat("  send ", a.task, '/', a.epoch, " worker ", a.worker, " attempt ", a.attempt);
  }
  std::string operator()(const RevokeLease& a) const {
    return cat("  revoke ", a.task, '/', a.epoch, " worker ", a.worker);
  }
  std::string operator()(const TaskCommitted& a) const {
    return cat("  committed ", a.task, ' ', outcome_name(a.outcome), " result ", a.result);
  }
  std::string operator()(const TaskFailedInfra& a) const { return cat("  given up ", a.task); }
  std::string operator()(const TaskRequeued& a) const {
    return cat("  requeued ", a.task, ": ", requeue_reason_name(a.reason));
  }
  std::string operator()(const TaskRefused& a) const { return cat("  refused task ", a.task); }
  std::string operator()(const JobRefused& a) const { return cat("  refused job ", a.job); }
  std::string operator()(const WorkerRefused& a) const {
    return cat("  refused worker ", a.worker);
  }
  std::string operator()(const CandidateQuarantined& a) const {
    return cat("  quarantined ", a.fingerprint.short_hex());
  }
  std::string operator()(const WorkerLost& a) const {
    return cat("  lost worker ", a.worker, " restarted ", a.restarted);
  }
  std::string operator()(const WorkerUnknown& a) const {
    return cat("  unknown worker ", a.worker);
  }
  std::string operator()(const WorkerSuspended& a) const {
    return cat("  suspended worker ", a.worker, " until ", a.until_ns);
  }
  std::string operator()(const WorkerDrained& a) const {
    return cat("  drained worker ", a.worker);
  }
  std::string operator()(const NoWorkerForTarget& a) const {
    return cat("  no worker for job ", a.job, ' ', a.target);
  }
  std::string operator()(const NoWorkerCleared& a) const {
    return cat("  a worker for job ", a.job, ' ', a.target);
  }
  std::string operator()(const StaleResult& a) const { return cat("  stale ", a.task); }
};

}  // namespace

World::World(uint64_t seed, const Faults& faults, bool verbose)
    : random_(seed),
      faults_(faults),
      verbose_(verbose),
      config_(config_of_a_fast_farm()),
      scheduler_(std::make_unique<Scheduler>(config_)),
      auditor_(config_) {
  WorkerId workers = 2 + random_.below(6);
  for (WorkerId id = 1; id <= workers; ++id) {
    Worker& worker = workers_[id];
    worker.id = id;
    worker.target = kTargets[id % kTargets.size()];
    worker.slots = static_cast<uint32_t>(1 + random_.below(3));
    bool late = faults_.late_workers && worker.target == "cuda";
    at(late ? 30'000 : static_cast<int64_t>(random_.below(2'000)),
       [this, id] { start(workers_.at(id)); });
  }
  make_jobs();
  at(0, [this] { tick(); });
  at(1'000, [this] { each_second(); });
}

void World::at(int64_t ms, std::function<void()> what) {
  later_.push({std::max(ms, now_ms_), order_++, std::move(what)});
}

Report World::run() {
  while (!later_.empty() && report_.failure.empty() && !done()) {
    Later next = later_.top();
    later_.pop();
    now_ms_ = next.at_ms;
    if (now_ms_ > kEndMs) {
      report_.failure = cat(auditor_.open_tasks(), " tasks are still open long after the faults");
      break;
    }
    next.what();
  }
  scheduler_->check_invariants();
  if (report_.failure.empty() && auditor_.no_worker_reported()) {
    report_.failure = "a job is still told that it has no worker";
  }
  report_.committed = auditor_.committed();
  report_.given_up = auditor_.given_up();
  report_.stale = auditor_.stale();
  report_.quarantined = auditor_.quarantined();
  report_.no_worker = auditor_.no_worker_reports();
  return report_;
}

bool World::done() const { return !faulty() && auditor_.open_tasks() == 0; }

void World::make_jobs() {
  JobId jobs = 1 + random_.below(6);
  for (JobId job = 1; job <= jobs; ++job) {
    int64_t start_ms = static_cast<int64_t>(random_.below(20'000));
    JobAdded added{job, random_.chance(0.5) ? "red" : "blue",
                   static_cast<uint32_t>(1 + random_.below(20))};
    at(start_ms, [this, added] {
      live_jobs_.insert(added.job);
      on_event(added);
    });
    for (uint64_t left = 1 + random_.below(40); left > 0; --left) {
      at(start_ms + 1 + static_cast<int64_t>(random_.below(25'000)),
         [this, job] { add_task(job); });
    }
  }
}

void World::add_task(JobId job) {
  if (live_jobs_.count(job) == 0) return;
  TaskAdded task;
  task.task = ++tasks_made_;
  task.job = job;
  task.target = kTargets[random_.below(kTargets.size())];
  task.run_limit_ms = kRunLimitMs;
  task.cost = static_cast<uint32_t>(1 + random_.below(5));
  task.payload = 5'000 + task.task;
  if (random_.chance(0.9)) {
    task.fingerprint = common::digest_of(cat("candidate ", random_.below(40)));
  }
  candidates_[task.task] = task.fingerprint;
  on_event(task);
}

World::Nature World::nature(TaskId task) const {
  const common::Digest& fingerprint = candidates_.at(task);
  if (!faults_.bad_candidates || fingerprint.is_zero()) return Nature::kGood;
  switch (fingerprint.prefix64() % 20) {
    case 0:
      return Nature::kKills;
    case 1:
      return Nature::kFreezes;
    case 2:
      return Nature::kCrashes;
    case 3:
      return Nature::kHangs;
    case 4:
      return Nature::kWrong;
    case 5:
      return Nature::kRefused;
    case 6:
    case 7:
      return Nature::kSlow;
    default:
      return Nature::kGood;
  }
}

void World::tick() {
  on_event(Tick{});
  at(now_ms_ + 200 + static_cast<int64_t>(random_.below(200)), [this] { tick(); });
}

void World::each_second() {
  for (auto& [id, worker] : workers_) {
    if (worker.up && strikes(faults_.crash)) stop(worker);
    if (worker.up && strikes(faults_.partition)) {
      worker.cut_off_until_ms =
          std::min(now_ms_ + static_cast<int64_t>(random_.below(20'000)), kFaultsEndMs);
    }
    if (worker.up && strikes(faults_.drain)) worker.draining = true;
    if (worker.up) beat(worker);
  }
  if (!live_jobs_.empty() && strikes(faults_.cancel)) {
    JobId job = *live_jobs_.begin();
    live_jobs_.erase(job);
    on_event(JobCancelled{job});
    if (random_.chance(0.5)) on_event(JobRemoved{job});
  }
  if (strikes(faults_.restart)) restart_coordinator();
  at(now_ms_ + 1'000, [this] { each_second(); });
}

void World::restart_coordinator() {
  if (verbose_) std::printf("%8lld coordinator restarts\n", static_cast<long long>(now_ms_));
  scheduler_ = std::make_unique<Scheduler>(config_);
  for (const Event& event : auditor_.restart()) on_event(event);
}

void World::on_event(const Event& event) {
  if (!report_.failure.empty()) return;
  int64_t now_ns = now_ms_ * 1'000'000;
  std::vector<Action> actions = scheduler_->on_event(event, now_ns);
  ++report_.events;
  auto record = [this](const std::string& line) {
    report_.trace = common::combine64(report_.trace, common::hash64(line));
    if (verbose_) std::printf("%8lld %s\n", static_cast<long long>(now_ms_), line.c_str());
  };
  record(std::visit(Describe{}, event));
  for (const Action& action : actions) record(std::visit(Describe{}, action));
  report_.failure = auditor_.audit(event, actions, scheduler_->stats(), now_ns);
  if (!report_.failure.empty()) {
    report_.failure += cat(" (at ", now_ms_, " ms, after: ", std::visit(Describe{}, event), ")");
    return;
  }
  // Every eighth: the full check is linear in the farm's size.
  if (report_.events % 8 == 0) scheduler_->check_invariants();
  for (const Action& action : actions) carry_out(action);
}

void World::carry_out(const Action& action) {
  if (auto* send = std::get_if<SendTask>(&action)) to_worker(send->worker, action);
  if (auto* revoke = std::get_if<RevokeLease>(&action)) to_worker(revoke->worker, action);
  if (auto* unknown = std::get_if<WorkerUnknown>(&action)) to_worker(unknown->worker, action);
  if (auto* drained = std::get_if<WorkerDrained>(&action)) to_worker(drained->worker, action);
}

int64_t World::arrival_ms(int64_t& last_ms) {
  int64_t delay_ms = 1 + static_cast<int64_t>(random_.below(20));
  if (strikes(faults_.long_delay)) delay_ms += static_cast<int64_t>(random_.below(4'000));
  int64_t arrival = now_ms_ + delay_ms;
  if (faults_.in_order) arrival = std::max(arrival, last_ms);
  last_ms = arrival;
  return arrival;
}

void World::to_farm(Worker& worker, Event event) {
  if (now_ms_ < worker.cut_off_until_ms || strikes(faults_.drop)) return;
  for (int copies = strikes(faults_.duplicate) ? 2 : 1; copies > 0; --copies) {
    at(arrival_ms(last_arrival_ms_[worker.id].first), [this, event] { on_event(event); });
  }
}

void World::to_worker(WorkerId id, Action action) {
  if (now_ms_ < workers_.at(id).cut_off_until_ms || strikes(faults_.drop)) return;
  for (int copies = strikes(faults_.duplicate) ? 2 : 1; copies > 0; --copies) {
    at(arrival_ms(last_arrival_ms_[id].second), [this, id, action] {
      Worker& worker = workers_.at(id);
      if (worker.up) receive(worker, action);
    });
  }
}

void World::start(Worker& worker) {
  worker.up = true;
  worker.draining = false;
  ++worker.incarnation;
  worker.held.clear();
  worker.over.clear();
  hello(worker);
}

// The process dies; another one starts after a while.
void World::stop(Worker& worker) {
  worker.up = false;
  worker.held.clear();
  WorkerId id = worker.id;
  at(now_ms_ + 100 + static_cast<int64_t>(random_.below(8'000)), [this, id] {
    if (!workers_.at(id).up) start(workers_.at(id));
  });
}

void World::hello(Worker& worker) {
  to_farm(worker, WorkerHello{worker.id, worker.incarnation, worker.target, worker.slots});
}

void World::beat(Worker& worker) {
  WorkerHeartbeat heartbeat{worker.id, worker.incarnation, worker.slots, {}};
  for (const auto& [lease, running] : worker.held) {
    heartbeat.leases.push_back({lease.first, lease.second, running.since_ms < now_ms_});
  }
  to_farm(worker, heartbeat);
  if (worker.draining) to_farm(worker, WorkerDrain{worker.id, worker.incarnation});
  if (worker.draining && !worker.held.empty() && !worker.held.begin()->second.dying &&
      random_.chance(0.3)) {
    Lease lease = worker.held.begin()->first;
    worker.held.erase(lease);
    worker.over.insert(lease);
    to_farm(worker, LeaseReturned{worker.id, lease.first, lease.second});
  }
}

void World::receive(Worker& worker, const Action& action) {
  if (auto* send = std::get_if<SendTask>(&action)) take(worker, *send);
  if (auto* revoke = std::get_if<RevokeLease>(&action)) {
    Lease lease{revoke->task, revoke->epoch};
    worker.over.insert(lease);
    auto held = worker.held.find(lease);
    if (held == worker.held.end() || held->second.dying) return;
    held->second.dying = true;
    WorkerId id = worker.id;
    uint64_t incarnation = worker.incarnation;
    at(now_ms_ + static_cast<int64_t>(random_.below(1'500)),
       [this, id, incarnation, lease] { bury(workers_.at(id), incarnation, lease); });
  }
  if (std::holds_alternative<WorkerUnknown>(action)) hello(worker);
  if (std::holds_alternative<WorkerDrained>(action) && worker.draining && worker.held.empty()) {
    to_farm(worker, WorkerGone{worker.id, worker.incarnation, true});
    stop(worker);
  }
}

// The executor of a revoked lease is dead and its slot free.
void World::bury(Worker& worker, uint64_t incarnation, Lease lease) {
  if (worker.incarnation != incarnation || worker.held.erase(lease) == 0) return;
  if (random_.chance(0.5)) to_farm(worker, LeaseReturned{worker.id, lease.first, lease.second});
}

void World::take(Worker& worker, const SendTask& task) {
  Lease lease{task.task, task.epoch};
  if (worker.held.count(lease) != 0 || worker.over.count(lease) != 0) return;
  if (worker.held.size() >= worker.slots) {
    ++report_.overfull;
    worker.over.insert(lease);
    return to_farm(worker, LeaseReturned{worker.id, lease.first, lease.second});
  }
  int64_t takes_ms = 20 + static_cast<int64_t>(random_.below(400));
  Nature nature = this->nature(task.task);
  if (nature == Nature::kSlow) takes_ms = kRunLimitMs - 100;
  if (nature == Nature::kHangs) takes_ms = kRunLimitMs;
  worker.held[lease] = {now_ms_};
  if (nature == Nature::kFreezes) return;  // until it is revoked
  WorkerId id = worker.id;
  uint64_t incarnation = worker.incarnation;
  at(now_ms_ + takes_ms,
     [this, id, incarnation, lease] { finish(workers_.at(id), incarnation, lease); });
}

void World::finish(Worker& worker, uint64_t incarnation, Lease lease) {
  if (!worker.up || worker.incarnation != incarnation) return;
  auto held = worker.held.find(lease);
  if (held == worker.held.end() || held->second.dying) return;
  if (strikes(faults_.infra)) return report(worker, lease, TaskOutcome::kInfra);
  switch (nature(lease.first)) {
    case Nature::kKills:
      return stop(worker);
    case Nature::kCrashes:
      return report(worker, lease, TaskOutcome::kCrash);
    case Nature::kHangs:
      return report(worker, lease, TaskOutcome::kHang);
    case Nature::kWrong:
      return report(worker, lease, TaskOutcome::kWrong);
    case Nature::kRefused:
      return report(worker, lease, TaskOutcome::kCompileError);
    default:
      return report(worker, lease, TaskOutcome::kOk);
  }
}

void World::report(Worker& worker, Lease lease, TaskOutcome outcome) {
  worker.held.erase(lease);
  worker.over.insert(lease);
  to_farm(worker, TaskResult{worker.id, lease.first, lease.second, outcome, ++results_made_});
}

}  // namespace sim
