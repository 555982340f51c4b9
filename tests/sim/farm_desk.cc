#include "farm_desk.h"

#include <algorithm>

#include "common/base/cat.h"
#include "farm_describe.h"

namespace sim {

using common::cat;

Desk::Desk(Scene& scene)
    : scene_(scene),
      config_(config_of_a_fast_farm()),
      disk_(scene),
      ledger_(scene),
      auditor_(config_) {
  start();
}

bool Desk::is_quiet() const {
  return is_up_ && jobs_.empty() && disk_.idle() && inbox_.empty() && auditor_.open_tasks() == 0;
}

// ---- The process -------------------------------------------------------------------------------

void Desk::start() {
  is_up_ = true;
  ++generation_;
  tasks_made_ = 0;
  scheduler_ = std::make_unique<FlawedScheduler>(config_, scene_);
  std::map<JobId, Job> found;
  bool drops_one = scene_.has(Defect::kDropsAJobAtRestart);
  for (const Record& record : disk_.records()) {
    if (!record.is_whole() && !scene_.has(Defect::kTrustsTornRecords)) continue;
    auto job = found.find(record.job);
    switch (record.kind) {
      case Record::Kind::kJob:
        jobs_made_ = std::max(jobs_made_, record.job);
        found[record.job].plan = record.plan;
        break;
      case Record::Kind::kResult:
        if (job == found.end() || scene_.has(Defect::kMeasuresAgainAfterRestart)) break;
        job->second.known.insert_or_assign(record.candidate, record.verdict);
        break;
      case Record::Kind::kEnd:
        if (job == found.end()) break;
        ended_[job->second.plan->key] = News::kDone;
        ledger_.recovered_done(record.job, job->second.plan->candidates.size());
        found.erase(job);
        break;
      case Record::Kind::kRemoval:
        found.erase(record.job);
        break;
      case Record::Kind::kBan:
        if (!scene_.has(Defect::kForgetsQuarantineAtRestart)) banned_[record.fingerprint] = true;
        break;
    }
  }
  for (auto& [id, job] : found) {
    if (std::exchange(drops_one, false)) continue;
    // What went wrong with the farm then may go well now.
    std::erase_if(job.known,
                  [](const auto& entry) { return entry.second.outcome == TaskOutcome::kInfra; });
    job.is_admitted = true;
    by_key_[job.plan->key] = id;
    ledger_.recovered(id);
    jobs_.emplace(id, std::move(job));
  }
  ledger_.recovered_all();
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (JobId id : ids) begin(id);
}

void Desk::kill(int64_t back_ms) {
  if (!is_up_) return;
  scene_.record("coordinator killed");
  is_up_ = false;
  disk_.kill();
  auditor_.restart();
  ledger_.restart();
  scheduler_.reset();
  inbox_.clear();
  events_.clear();
  jobs_.clear();
  by_key_.clear();
  ended_.clear();
  tasks_.clear();
  banned_.clear();
  stalled_until_ms_ = 0;
  scene_.at(back_ms, [this] { start(); });
}

void Desk::stall_until(int64_t ms) {
  if (!is_up_ || ms <= stalled_until_ms_) return;
  scene_.record("coordinator stands still");
  stalled_until_ms_ = ms;
  scene_.at(ms, while_alive([this] {
              if (scene_.now_ms() < stalled_until_ms_) return;
              std::deque<std::function<void()>> heard = std::exchange(inbox_, {});
              for (const auto& what : heard) {
                if (is_up_) what();
              }
            }));
}

std::function<void()> Desk::while_alive(std::function<void()> what) {
  return [this, generation = generation_, what = std::move(what)] {
    if (is_up_ && generation == generation_) what();
  };
}

void Desk::hear(std::function<void()> what) {
  if (!is_up_) return;
  if (scene_.now_ms() < stalled_until_ms_) {
    inbox_.push_back(std::move(what));
  } else {
    what();
  }
}

// ---- Messages ----------------------------------------------------------------------------------

void Desk::from_worker(Event event) {
  hear([this, event = std::move(event)]() mutable { feed(std::move(event)); });
}

void Desk::submit(const std::shared_ptr<const JobPlan>& plan) {
  hear([this, plan] {
    auto ended = ended_.find(plan->key);
    if (ended != ended_.end()) return scene_.to_client(plan->key, ended->second);
    auto running = by_key_.find(plan->key);
    if (running != by_key_.end()) {
      if (jobs_.at(running->second).is_admitted) scene_.to_client(plan->key, News::kAccepted);
      return;
    }
    JobId id = ++jobs_made_;
    by_key_[plan->key] = id;
    jobs_[id].plan = plan;
    Record record;
    record.job = id;
    record.plan = plan;
    disk_.put(record, [this, id](bool written) {
      hear(while_alive([this, id, written] {
        auto job = jobs_.find(id);
        if (job == jobs_.end()) return;
        if (!written) return fail(id);
        job->second.is_admitted = true;
        ledger_.accepted(id);
        scene_.to_client(job->second.plan->key, News::kAccepted);
        begin(id);
      }));
    });
  });
}

void Desk::cancel(uint64_t key) {
  hear([this, key] {
    auto running = by_key_.find(key);
    if (running == by_key_.end()) return;
    JobId id = running->second;
    if (!jobs_.at(id).is_admitted || jobs_.at(id).is_ending) return;
    feed(JobCancelled{id});
    fail(id);
  });
}

// ---- Jobs --------------------------------------------------------------------------------------

void Desk::begin(JobId id) {
  const Job& job = jobs_.at(id);
  std::map<uint64_t, Verdict> known = job.known;
  std::shared_ptr<const JobPlan> plan = job.plan;
  feed(JobAdded{id, plan->tenant, plan->priority});
  for (const auto& [candidate, verdict] : known) tell(id, candidate, verdict);
  for (uint64_t candidate = 0; candidate < plan->candidates.size(); ++candidate) {
    if (known.count(candidate) != 0) continue;
    scene_.at(plan->candidates[candidate].at_ms, while_alive([this, id, candidate] {
                hear(while_alive([this, id, candidate] { propose(id, candidate); }));
              }));
  }
}

void Desk::propose(JobId id, uint64_t number) {
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  const Candidate& candidate = job->second.plan->candidates[number];
  if (banned_.count(candidate.fingerprint) != 0) feed(FingerprintBanned{candidate.fingerprint});
  TaskAdded task;
  // The generation keeps numbers apart from those that workers remember of an earlier coordinator.
  task.task = (generation_ << 32) + ++tasks_made_;
  task.job = id;
  task.target = candidate.target;
  task.run_limit_ms = Scene::kRunLimitMs;
  task.cost = candidate.cost;
  task.fingerprint = candidate.fingerprint;
  task.payload = task.task;
  tasks_[task.task] = {id, number};
  ledger_.asked(task.task, id, number);
  feed(task);
}

void Desk::on_committed(TaskId task, const Verdict& verdict) {
  auto found = tasks_.find(task);
  if (found == tasks_.end()) return;
  auto [id, candidate] = found->second;
  tasks_.erase(found);
  Record record;
  record.kind = Record::Kind::kResult;
  record.job = id;
  record.candidate = candidate;
  record.verdict = verdict;
  bool is_early = scene_.has(Defect::kTellsBeforeItIsWritten);
  if (is_early) tell(id, candidate, verdict);
  disk_.put(record, [this, id = id, candidate = candidate, verdict, is_early](bool written) {
    hear(while_alive([this, id, candidate, verdict, written, is_early] {
      if (!written) return fail(id);
      if (!is_early) tell(id, candidate, verdict);
    }));
  });
}

void Desk::tell(JobId id, uint64_t candidate, const Verdict& verdict) {
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  ledger_.told(id, candidate, verdict);
  job->second.known[candidate] = verdict;
  ++job->second.told;
  end_if_complete(id);
}

void Desk::end_if_complete(JobId id) {
  Job& job = jobs_.at(id);
  if (job.told != job.plan->candidates.size() || job.is_ending) return;
  job.is_ending = true;
  Record record;
  record.kind = Record::Kind::kEnd;
  record.job = id;
  disk_.put(record, [this, id](bool written) {
    hear(while_alive([this, id, written] {
      auto job = jobs_.find(id);
      if (job == jobs_.end()) return;
      if (!written) return fail(id);
      uint64_t key = job->second.plan->key;
      ledger_.done(id, job->second.plan->candidates.size());
      ended_[key] = News::kDone;
      scene_.to_client(key, News::kDone);
      drop(id);
    }));
  });
}

void Desk::fail(JobId id) {
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  uint64_t key = job->second.plan->key;
  if (job->second.is_admitted) ledger_.failed(id);
  ended_[key] = News::kFailed;
  scene_.to_client(key, News::kFailed);
  drop(id);
  Record record;
  record.kind = Record::Kind::kRemoval;
  record.job = id;
  disk_.put(record, [](bool) {});
}

void Desk::drop(JobId id) {
  by_key_.erase(jobs_.at(id).plan->key);
  jobs_.erase(id);
  std::erase_if(tasks_, [id](const auto& entry) { return entry.second.first == id; });
  feed(JobRemoved{id});
}

// ---- The scheduler -----------------------------------------------------------------------------

void Desk::feed(Event event) {
  events_.push_back(std::move(event));
  if (is_pumping_) return;
  is_pumping_ = true;
  while (!events_.empty()) {
    Event next = std::move(events_.front());
    events_.pop_front();
    handle(next);
  }
  is_pumping_ = false;
}

void Desk::handle(const Event& event) {
  if (!scene_.report.failure.empty()) return;
  int64_t now_ns = scene_.now_ms() * 1'000'000;
  std::vector<Action> actions = scheduler_->on_event(event, now_ns);
  ++scene_.report.events;
  scene_.record(describe(event));
  for (const Action& action : actions) scene_.record(describe(action));
  std::string wrong = auditor_.audit(event, actions, scheduler_->stats(), now_ns);
  if (!wrong.empty()) return scene_.fail(cat(wrong, ", after: ", describe(event)));
  scheduler_->scheduler().check_invariants();
  for (const Action& action : actions) carry_out(action);
}

void Desk::carry_out(const Action& action) {
  if (auto* send = std::get_if<SendTask>(&action)) {
    ledger_.sent(send->task);
    scene_.to_worker(send->worker, action);
  }
  if (auto* revoke = std::get_if<RevokeLease>(&action)) scene_.to_worker(revoke->worker, action);
  if (auto* unknown = std::get_if<WorkerUnknown>(&action)) {
    scene_.to_worker(unknown->worker, action);
  }
  if (auto* drained = std::get_if<WorkerDrained>(&action)) {
    scene_.to_worker(drained->worker, action);
  }
  if (auto* committed = std::get_if<TaskCommitted>(&action)) {
    on_committed(committed->task, {committed->outcome, committed->result});
  }
  if (auto* failed = std::get_if<TaskFailedInfra>(&action)) {
    on_committed(failed->task, {TaskOutcome::kInfra, 0});
  }
  if (auto* stopped = std::get_if<JobStopped>(&action)) {
    ++scene_.report.jobs_stopped;
    fail(stopped->job);
  }
  if (auto* quarantined = std::get_if<CandidateQuarantined>(&action)) {
    Record record;
    record.kind = Record::Kind::kBan;
    record.fingerprint = quarantined->fingerprint;
    banned_[quarantined->fingerprint] = true;
    if (disk_.put_now(record)) auditor_.keep_quarantined(quarantined->fingerprint);
  }
}

}  // namespace sim
