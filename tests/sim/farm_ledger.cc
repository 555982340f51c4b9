#include "farm_ledger.h"

#include "common/base/cat.h"

namespace sim {

using common::cat;

void Ledger::accepted(JobId job) { jobs_[job]; }

void Ledger::asked(TaskId task, JobId job, uint64_t candidate) {
  if (!tasks_.emplace(task, std::make_pair(job, candidate)).second) {
    scene_.fail(cat("task ", task, " has the number of an earlier one"));
  }
}

void Ledger::sent(TaskId task) {
  const auto& [job, candidate] = tasks_.at(task);
  const Job& entry = jobs_[job];
  auto known = entry.known.find(candidate);
  if (known != entry.known.end() && known->second.outcome != TaskOutcome::kInfra) {
    scene_.fail(cat("job ", job, " candidate ", candidate, " is measured again"));
  }
}

void Ledger::found(Handle result, TaskId task, TaskOutcome outcome) {
  tuning_records_[result] = {task, outcome};
}

void Ledger::check_truth(JobId job, uint64_t candidate, const Verdict& verdict) {
  if (verdict.result == 0) return;  // the scheduler's own, which the auditor judges
  auto record = tuning_records_.find(verdict.result);
  if (record == tuning_records_.end()) return scene_.fail("a verdict was told that nobody found");
  auto task = tasks_.find(record->second.task);
  if (task == tasks_.end() || task->second != std::make_pair(job, candidate)) {
    return scene_.fail(cat("job ", job, " candidate ", candidate, " got another one's verdict"));
  }
  bool killer = record->second.outcome == TaskOutcome::kHang &&  //
                verdict.outcome == TaskOutcome::kCrash;
  if (record->second.outcome != verdict.outcome && !killer) {
    scene_.fail(cat("job ", job, " candidate ", candidate, " got a verdict that was not found"));
  }
}

void Ledger::told(JobId id, uint64_t candidate, const Verdict& verdict) {
  Job& job = jobs_[id];
  if (job.state == State::kDone) scene_.fail(cat("job ", id, " learned after it was done"));
  auto [life, is_new] = job.told_in.try_emplace(candidate, life_);
  if (!is_new && life->second == life_) {
    scene_.fail(cat("job ", id, " was told twice of candidate ", candidate));
  }
  life->second = life_;
  auto [known, is_first] = job.known.try_emplace(candidate, verdict);
  if (!is_first && known->second.outcome != TaskOutcome::kInfra && !(known->second == verdict)) {
    scene_.fail(cat("job ", id, " was told another verdict of candidate ", candidate));
  }
  known->second = verdict;
  check_truth(id, candidate, verdict);
}

void Ledger::done(JobId id, size_t candidates) {
  Job& job = jobs_[id];
  if (job.state == State::kDone) scene_.fail(cat("job ", id, " was done twice"));
  if (job.known.size() != candidates) scene_.fail(cat("job ", id, " is done without a verdict"));
  job.state = State::kDone;
  ++scene_.report.jobs_done;
}

void Ledger::failed(JobId id) {
  Job& job = jobs_[id];
  if (job.state == State::kDone) scene_.fail(cat("job ", id, " failed after it was done"));
  job.state = State::kFailed;
  ++scene_.report.jobs_failed;
}

void Ledger::restart() {
  ++life_;
  for (auto& [id, job] : jobs_) job.is_back = false;
}

// One that failed may come back, when the coordinator died before the disk had heard of it. One
// that came too late for its Accepted may, too.
void Ledger::recovered(JobId id) {
  Job& job = jobs_[id];
  if (job.state == State::kDone) scene_.fail(cat("job ", id, " came back although done"));
  job.state = State::kOpen;
  job.is_back = true;
}

void Ledger::recovered_done(JobId id, size_t candidates) {
  if (jobs_[id].state != State::kDone) done(id, candidates);
  jobs_[id].is_back = true;
}

void Ledger::recovered_all() {
  for (const auto& [id, job] : jobs_) {
    if (!job.is_back && job.state == State::kOpen) {
      scene_.fail(cat("job ", id, " was accepted and lost"));
    }
  }
}

}  // namespace sim
