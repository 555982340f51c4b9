#include "worker/agent/pipeline/pipeline_shares.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/wire/socket.h"

namespace worker {

using common::TaskLease;

namespace {
constexpr int kPumpMs = 1'000;
}  // namespace

class PipelineShares::Share final : public Pipeline {
 public:
  Share(PipelineShares& all, size_t number) : all_(all), number_(number) {}

  void submit(Job job) override { all_.submit(number_, std::move(job)); }
  bool cancel(const TaskLease& lease) override { return all_.cancel(number_, lease); }
  std::vector<TaskLease> cancel_waiting() override { return all_.cancel_waiting(number_); }
  std::vector<JobResult> take_results() override {
    ready_.clear();
    std::lock_guard lock(all_.mutex_);
    return std::exchange(results, {});
  }
  int results_fd() const override { return ready_.fd(); }
  void deliver(JobResult result) {
    results.push_back(std::move(result));
    ready_.wake();
  }

  // Guarded by the mutex of all.
  std::deque<Job> waiting;
  std::vector<JobResult> results;

 private:
  PipelineShares& all_;
  const size_t number_;
  common::Waker ready_;
};

PipelineShares::PipelineShares(Pipeline& pipeline, size_t count, uint32_t slots)
    : pipeline_(pipeline), slots_(slots) {
  for (size_t k = 0; k < count; ++k) shares_.push_back(std::make_unique<Share>(*this, k));
  pump_ = std::thread([this] { pump(); });
}

PipelineShares::~PipelineShares() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.wake();
  pump_.join();
}

Pipeline& PipelineShares::share(size_t k) { return *shares_[k]; }

void PipelineShares::submit(size_t share, Job job) {
  std::lock_guard lock(mutex_);
  shares_[share]->waiting.push_back(std::move(job));
  admit();
}

bool PipelineShares::cancel(size_t share, const TaskLease& lease) {
  std::lock_guard lock(mutex_);
  Share& mine = *shares_[share];
  std::erase_if(mine.results, [&](const JobResult& one) { return one.message.lease == lease; });
  size_t erased = std::erase_if(mine.waiting, [&](const Job& one) { return one.lease == lease; });
  if (erased != 0) return true;
  auto found = std::find_if(admitted_.begin(), admitted_.end(), [&](const auto& one) {
    return one.second.share == share && one.second.lease == lease;
  });
  if (found == admitted_.end()) return false;
  bool was_untouched = pipeline_.cancel(found->first);
  admitted_.erase(found);
  admit();
  return was_untouched;
}

std::vector<TaskLease> PipelineShares::cancel_waiting(size_t share) {
  std::lock_guard lock(mutex_);
  std::vector<TaskLease> cancelled;
  for (const Job& job : shares_[share]->waiting) cancelled.push_back(job.lease);
  shares_[share]->waiting.clear();
  return cancelled;
}

void PipelineShares::admit() {
  while (admitted_.size() < slots_) {
    size_t tried = 0;
    while (tried < shares_.size() && shares_[turn_]->waiting.empty()) {
      turn_ = (turn_ + 1) % shares_.size();
      ++tried;
    }
    if (tried == shares_.size()) return;
    Job job = std::move(shares_[turn_]->waiting.front());
    shares_[turn_]->waiting.pop_front();
    TaskLease unique{++tasks_, 0};
    admitted_.emplace(unique, Admitted{turn_, std::exchange(job.lease, unique)});
    turn_ = (turn_ + 1) % shares_.size();
    pipeline_.submit(std::move(job));
  }
}

void PipelineShares::pump() {
  common::Poller poller;
  poller.watch_fd(pipeline_.results_fd());
  poller.watch_fd(stop_.fd());
  while (true) {
    auto ready = poller.wait(kPumpMs);
    if (!ready.ok()) common::log_error(ready.error().message);
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    take_results();
  }
}

void PipelineShares::take_results() {
  for (JobResult& result : pipeline_.take_results()) {
    auto found = admitted_.find(result.message.lease);
    if (found == admitted_.end()) continue;
    result.message.lease = found->second.lease;
    shares_[found->second.share]->deliver(std::move(result));
    admitted_.erase(found);
  }
  admit();
}

}  // namespace worker
