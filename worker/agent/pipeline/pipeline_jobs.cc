#include "worker/agent/pipeline/pipeline_jobs.h"

#include <utility>

namespace worker {
using common::TaskLease;

namespace {

// Compiled jobs that wait for the device: one is enough to keep it busy.
constexpr size_t kCompiledMax = 2;

}  // namespace

void PipelineJobs::submit(Job job, int64_t now_ns) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(job), now_ns});
  }
  changed_.notify_all();
}

bool PipelineJobs::cancel(const TaskLease& lease) {
  std::lock_guard lock(mutex_);
  std::erase_if(results_, [&](const JobResult& r) { return r.message.lease == lease; });
  size_t unstarted =
      std::erase_if(waiting_, [&](const WaitingJob& one) { return one.job.lease == lease; });
  std::erase_if(compiled_, [&](const auto& job) { return job->lease == lease; });
  if (active_.erase(lease) != 0 && running_ == lease && executor_ != nullptr) {
    executor_->interrupt();
  }
  changed_.notify_all();  // there may be room for another compiled job
  return unstarted != 0;
}

std::vector<TaskLease> PipelineJobs::cancel_waiting() {
  std::lock_guard lock(mutex_);
  std::vector<TaskLease> leases;
  for (const WaitingJob& one : waiting_) leases.push_back(one.job.lease);
  for (const auto& job : compiled_) leases.push_back(job->lease);
  waiting_.clear();
  compiled_.clear();
  for (auto it = active_.begin(); it != active_.end();) {
    if (*it == running_) {
      ++it;
    } else {
      leases.push_back(*it);
      it = active_.erase(it);
    }
  }
  return leases;
}

std::vector<JobResult> PipelineJobs::take_results() {
  std::lock_guard lock(mutex_);
  results_ready_.clear();
  return std::exchange(results_, {});
}

std::optional<WaitingJob> PipelineJobs::next_to_compile() {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return is_stopping_ || (!waiting_.empty() && compiled_.size() < kCompiledMax); });
  if (is_stopping_) return std::nullopt;
  WaitingJob waiting = std::move(waiting_.front());
  waiting_.pop_front();
  active_.insert(waiting.job.lease);
  return waiting;
}

void PipelineJobs::add_compiled(std::unique_ptr<CompiledJob> job) {
  {
    std::lock_guard lock(mutex_);
    if (active_.erase(job->lease) == 0) return;
    compiled_.push_back(std::move(job));
  }
  changed_.notify_all();
}

std::unique_ptr<CompiledJob> PipelineJobs::next_to_run(ExecutorClient& executor) {
  std::unique_ptr<CompiledJob> job;
  {
    std::unique_lock lock(mutex_);
    executor_ = &executor;
    running_ = {};
    changed_.wait(lock, [&] { return is_stopping_ || !compiled_.empty(); });
    if (is_stopping_) {
      executor_ = nullptr;
      return nullptr;
    }
    job = std::move(compiled_.front());
    compiled_.pop_front();
    active_.insert(job->lease);
    running_ = job->lease;
    executor.clear_interrupt();
  }
  changed_.notify_all();
  return job;
}

void PipelineJobs::deliver(JobResult result) {
  std::lock_guard lock(mutex_);
  if (active_.erase(result.message.lease) == 0) return;
  results_.push_back(std::move(result));
  results_ready_.wake();
}

void PipelineJobs::stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    if (executor_ != nullptr) executor_->interrupt();
  }
  changed_.notify_all();
}

}  // namespace worker
