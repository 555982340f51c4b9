#include "farm_desk.h"

#include <algorithm>

#include "common/base/cat.h"
#include "farm_describe.h"

namespace sim {

using common::cat;

namespace {
// Between looks at what other replicas have withdrawn.
constexpr int64_t kLookMs = 3'000;
}  // namespace

Desk::Desk(Scene& scene) : scene_(scene), config_(config_of_a_fast_farm()), auditor_(config_) {
  for (size_t k = 0; k < kReplicas; ++k) replicas_.push_back(std::make_unique<Replica>(scene));
  start();
}

bool Desk::is_quiet() const {
  return is_up_ && jobs_.empty() && is_quiet_disk() && inbox_.empty() && auditor_.open_tasks() == 0;
}

// ---- The process -------------------------------------------------------------------------------

void Desk::start() {
  is_up_ = true;
  ++generation_;
  ++leader().generation;
  tasks_made_ = 0;
  // As common::Incarnation draws it: results for an earlier process are for no task of this one.
  first_task_ = scene_.has(Defect::kNumbersTasksByGeneration) ? leader().generation << 32
                                                              : scene_.random.next() >> 12;
  scheduler_ = std::make_unique<FlawedScheduler>(config_, scene_);
  std::map<JobId, Job> found;
  bool drops_one = scene_.has(Defect::kDropsAJobAtRestart);
  for (const Record& record : leader().disk.records()) {
    if (!record.is_whole() && !scene_.has(Defect::kTrustsTornRecords)) continue;
    auto job = found.find(record.job);
    switch (record.kind) {
      case Record::Kind::kJob:
        leader().jobs_made = std::max(leader().jobs_made, record.job);
        found[record.job].plan = record.plan;
        break;
      case Record::Kind::kResult:
        if (job == found.end() || scene_.has(Defect::kMeasuresAgainAfterRestart)) break;
        job->second.known.insert_or_assign(record.candidate, record.verdict);
        break;
      case Record::Kind::kEnd:
        if (record.plan != nullptr) plans_[record.plan->key] = record.candidate;
        if (job == found.end()) break;
        plans_[job->second.plan->key] = record.candidate;
        leader().ledger.recovered_done(record.job, job->second.plan->candidates.size());
        found.erase(job);
        break;
      case Record::Kind::kRemoval:
        found.erase(record.job);
        break;
      case Record::Kind::kBan:
        if (!scene_.has(Defect::kForgetsQuarantineAtRestart)) banned_[record.fingerprint] = true;
        break;
      case Record::Kind::kRevoke:
        revoked_.insert(record.candidate);
        break;
    }
  }
  could_read_at_start_ = shared_.answers(scene_.now_ms());
  look_ms_ = scene_.now_ms() + kLookMs;
  std::erase_if(plans_, [&](const auto& entry) { return revoked_.count(entry.second) != 0; });
  unshared_ = plans_;
  if (!scene_.has(Defect::kServesBeforeItReadsRevocations)) exchange_with_shared_store();
  for (auto& [id, job] : found) {
    if (std::exchange(drops_one, false)) continue;
    // What went wrong with the farm then may go well now.
    std::erase_if(job.known,
                  [](const auto& entry) { return entry.second.outcome == TaskOutcome::kInfra; });
    job.is_admitted = true;
    by_key_[job.plan->key] = id;
    leader().ledger.recovered(id);
    jobs_.emplace(id, std::move(job));
  }
  leader().ledger.recovered_all();
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (JobId id : ids) begin(id);
}

void Desk::fail_over(int64_t back_ms) {
  if (!is_up_) return;
  ++scene_.report.failovers;
  kill(back_ms);
  scene_.record("another replica leads");
  leader().banned = std::exchange(auditor_.on_disk(), {});
  leader_ = (leader_ + 1 + scene_.random.below(kReplicas - 1)) % kReplicas;
  auditor_.on_disk() = leader().banned;
  auditor_.restart();
}

void Desk::cut_off_shared_store(int64_t until_ms) {
  scene_.record("the shared store is cut off");
  shared_.out_until_ms = std::max(shared_.out_until_ms, until_ms);
}

// As SharedTier does: what is revoked adds up in both places, and a plan goes where it is missed.
void Desk::exchange_with_shared_store() {
  if (!shared_.answers(scene_.now_ms())) return;
  revoked_.insert(shared_.revoked.begin(), shared_.revoked.end());
  shared_.revoked = revoked_;
  for (const auto& [key, plan] : unshared_) shared_.plans.emplace(key, plan);
  unshared_.clear();
  auto is_revoked = [&](const auto& entry) { return revoked_.count(entry.second) != 0; };
  std::erase_if(shared_.plans, is_revoked);
  std::erase_if(plans_, is_revoked);
}

// No plan is served that this leader has withdrawn, or that others had when it began to lead and
// the shared store answered.
void Desk::serve(uint64_t key) {
  uint64_t plan = plans_.at(key);
  if (revoked_.count(plan) != 0) scene_.fail(cat("plan ", plan, " was revoked here and is served"));
  bool could_know = could_read_at_start_ && shared_.revoked.count(plan) != 0;
  if (could_know) scene_.fail(cat("plan ", plan, " was revoked by another replica and is served"));
  scene_.to_client(key, News::kDone);
}

bool Desk::revoke(uint64_t key) {
  if (!is_up_ || scene_.now_ms() < stalled_until_ms_) return false;
  auto plan = plans_.find(key);
  if (plan == plans_.end()) return false;
  Record record;
  record.kind = Record::Kind::kRevoke;
  record.candidate = plan->second;
  if (!leader().disk.put_now(record)) return false;
  ++scene_.report.revoked;
  revoked_.insert(plan->second);
  unshared_.erase(key);
  plans_.erase(plan);
  exchange_with_shared_store();
  return true;
}

void Desk::found(Handle result, TaskId task, TaskOutcome outcome) {
  for (auto& replica : replicas_) replica->ledger.found(result, task, outcome);
}

void Desk::kill(int64_t back_ms) {
  if (!is_up_) return;
  scene_.record("coordinator killed");
  is_up_ = false;
  leader().disk.kill();
  auditor_.restart();
  leader().ledger.restart();
  scheduler_.reset();
  inbox_.clear();
  events_.clear();
  jobs_.clear();
  by_key_.clear();
  failed_.clear();
  plans_.clear();
  revoked_.clear();
  unshared_.clear();
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

void Desk::tick() {
  from_worker(Tick{});
  if (!is_up_ || scene_.now_ms() < look_ms_) return;
  look_ms_ = scene_.now_ms() + kLookMs;
  exchange_with_shared_store();
}

void Desk::from_worker(Event event) {
  hear([this, event = std::move(event)]() mutable { feed(std::move(event)); });
}

void Desk::submit(const std::shared_ptr<const JobPlan>& plan) {
  hear([this, plan] {
    if (failed_.count(plan->key) != 0) return scene_.to_client(plan->key, News::kFailed);
    if (plans_.count(plan->key) != 0) return serve(plan->key);
    auto elsewhere = shared_.plans.find(plan->key);
    // A store takes no plan that it knows to be revoked, whoever offers it.
    bool is_there = shared_.answers(scene_.now_ms()) && elsewhere != shared_.plans.end() &&
                    revoked_.count(elsewhere->second) == 0;
    if (is_there && by_key_.count(plan->key) == 0) {
      ++scene_.report.shared;
      plans_[plan->key] = elsewhere->second;
      Record copy;
      copy.kind = Record::Kind::kEnd;
      copy.plan = plan;
      copy.candidate = elsewhere->second;
      leader().disk.put(copy, [](bool) {});
      return serve(plan->key);
    }
    auto running = by_key_.find(plan->key);
    if (running != by_key_.end()) {
      if (jobs_.at(running->second).is_admitted) scene_.to_client(plan->key, News::kAccepted);
      return;
    }
    JobId id = ++leader().jobs_made;
    by_key_[plan->key] = id;
    jobs_[id].plan = plan;
    Record record;
    record.job = id;
    record.plan = plan;
    leader().disk.put(record, [this, id](bool written) {
      hear(while_alive([this, id, written] {
        auto job = jobs_.find(id);
        if (job == jobs_.end()) return;
        if (!written) return fail(id);
        job->second.is_admitted = true;
        leader().ledger.accepted(id);
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
  task.task = first_task_ + ++tasks_made_;
  if (!all_tasks_.insert(task.task).second) {
    scene_.fail(cat("task ", task.task, " has the number of another replica's"));
  }
  task.job = id;
  task.target = candidate.target;
  task.run_limit_ms = Scene::kRunLimitMs;
  task.cost = candidate.cost;
  task.fingerprint = candidate.fingerprint;
  task.payload = task.task;
  tasks_[task.task] = {id, number};
  leader().ledger.asked(task.task, id, number);
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
  leader().disk.put(record,
                    [this, id = id, candidate = candidate, verdict, is_early](bool written) {
                      hear(while_alive([this, id, candidate, verdict, written, is_early] {
                        if (!written) return fail(id);
                        if (!is_early) tell(id, candidate, verdict);
                      }));
                    });
}

void Desk::tell(JobId id, uint64_t candidate, const Verdict& verdict) {
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  leader().ledger.told(id, candidate, verdict);
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
  uint64_t number = record.candidate = ++plans_made_;
  leader().disk.put(record, [this, id, number](bool written) {
    hear(while_alive([this, id, number, written] {
      auto job = jobs_.find(id);
      if (job == jobs_.end()) return;
      if (!written) return fail(id);
      uint64_t key = job->second.plan->key;
      leader().ledger.done(id, job->second.plan->candidates.size());
      plans_[key] = unshared_[key] = number;
      exchange_with_shared_store();
      serve(key);
      drop(id);
    }));
  });
}

void Desk::fail(JobId id) {
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  uint64_t key = job->second.plan->key;
  if (job->second.is_admitted) leader().ledger.failed(id);
  failed_.insert(key);
  scene_.to_client(key, News::kFailed);
  drop(id);
  Record record;
  record.kind = Record::Kind::kRemoval;
  record.job = id;
  leader().disk.put(record, [](bool) {});
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
    leader().ledger.sent(send->task);
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
    if (leader().disk.put_now(record)) auditor_.keep_quarantined(quarantined->fingerprint);
  }
}

}  // namespace sim
