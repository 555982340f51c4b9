#include "tests/chaos/simulated/simulated_pipeline.h"

#include <algorithm>
#include <utility>

#include "common/wire/ir_codec.h"

namespace chaos {

SimulatedDevices::~SimulatedDevices() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SimulatedDevices::call_at(int64_t due_ns, SimulatedPipeline& pipeline) {
  {
    std::lock_guard lock(mutex_);
    calls_.emplace(due_ns, &pipeline);
  }
  changed_.notify_all();
}

void SimulatedDevices::forget(SimulatedPipeline& pipeline) {
  std::lock_guard lock(mutex_);
  std::erase_if(calls_, [&](const auto& call) { return call.second == &pipeline; });
}

void SimulatedDevices::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (calls_.empty()) {
      changed_.wait(lock);
      continue;
    }
    auto first = calls_.begin();
    int64_t left_ns = first->first - clock_.now_ns();
    if (left_ns > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left_ns));
      continue;
    }
    SimulatedPipeline* pipeline = first->second;
    calls_.erase(first);
    pipeline->finish();
  }
}

worker::JobResult SimulatedDevices::answer(const worker::Job& job) {
  worker::JobResult result;
  result.message.lease = job.lease;
  result.message.busy_ms = static_cast<double>(task_ns_) * 1e-6;
  std::lock_guard lock(answers_mutex_);
  result.message.report = answers_.to(job.payload).report;
  auto report = common::decode_task_report(result.message.report);
  if (!report.ok()) return result;
  result.message.blobs = report->objects;
  for (const common::Digest& digest : report->objects) {
    const common::SharedBytes* object = answers_.object(digest);
    if (object != nullptr) {
      result.blobs[digest] = std::make_shared<const common::Bytes>(common::to_bytes(object->bytes));
    }
  }
  return result;
}

void SimulatedPipeline::submit(worker::Job job) {
  int64_t due_ns = 0;
  {
    std::lock_guard lock(mutex_);
    free_ns_ = std::max(free_ns_, devices_.now_ns()) + devices_.task_ns();
    due_ns = free_ns_;
    running_.push_back({std::move(job), due_ns});
  }
  devices_.call_at(due_ns, *this);
}

bool SimulatedPipeline::cancel(const common::TaskLease& lease) {
  std::lock_guard lock(mutex_);
  auto found = std::find_if(running_.begin(), running_.end(),
                            [&](const Running& one) { return one.job.lease == lease; });
  bool is_untouched = found != running_.end() && found != running_.begin();
  if (found != running_.end()) running_.erase(found);
  std::erase_if(results_, [&](const worker::JobResult& one) { return one.message.lease == lease; });
  return is_untouched;
}

std::vector<common::TaskLease> SimulatedPipeline::cancel_waiting() {
  std::lock_guard lock(mutex_);
  std::vector<common::TaskLease> leases;
  for (size_t k = 1; k < running_.size(); ++k) leases.push_back(running_[k].job.lease);
  if (running_.size() > 1) running_.erase(running_.begin() + 1, running_.end());
  return leases;
}

void SimulatedPipeline::finish() {
  std::vector<Running> done;
  {
    std::lock_guard lock(mutex_);
    int64_t now_ns = devices_.now_ns();
    while (!running_.empty() && running_.front().due_ns <= now_ns) {
      done.push_back(std::move(running_.front()));
      running_.erase(running_.begin());
    }
    for (const Running& one : done) results_.push_back(devices_.answer(one.job));
  }
  if (!done.empty()) results_ready_.wake();
}

std::vector<worker::JobResult> SimulatedPipeline::take_results() {
  std::lock_guard lock(mutex_);
  results_ready_.clear();
  return std::exchange(results_, {});
}

}  // namespace chaos
