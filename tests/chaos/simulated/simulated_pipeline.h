// Work on tasks that only takes time: a pipeline for agents of workers without a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/context.h"
#include "tests/bench/farm/simulated_answers.h"
#include "worker/agent/pipeline/pipeline.h"

namespace chaos {

class SimulatedPipeline;

// What all pipelines of a process share: one thread that ends their tasks, and what they answer.
class SimulatedDevices {
 public:
  explicit SimulatedDevices(int64_t task_ns) : task_ns_(task_ns), thread_([this] { run(); }) {}
  // The pipelines are gone.
  ~SimulatedDevices();
  SimulatedDevices(const SimulatedDevices&) = delete;
  SimulatedDevices& operator=(const SimulatedDevices&) = delete;

  // Of one task, whichever pipeline's.
  int64_t task_ns() const { return task_ns_; }
  int64_t now_ns() const { return clock_.now_ns(); }
  // Calls pipeline.finish() then.
  void call_at(int64_t due_ns, SimulatedPipeline& pipeline);
  // No call of it comes after this.
  void forget(SimulatedPipeline& pipeline);
  worker::JobResult answer(const worker::Job& job);

 private:
  void run();

  const int64_t task_ns_;
  common::SteadyClock clock_;
  std::mutex answers_mutex_;  // guards what follows
  bench::SimulatedAnswers answers_{bench::AnswersFrom::kDevice};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::multimap<int64_t, SimulatedPipeline*> calls_;
  bool stop_ = false;
  std::thread thread_;
};

// Takes one task after the other, for a fixed time each.
class SimulatedPipeline final : public worker::Pipeline {
 public:
  explicit SimulatedPipeline(SimulatedDevices& devices) : devices_(devices) {}
  ~SimulatedPipeline() override { devices_.forget(*this); }

  void submit(worker::Job job) override;
  bool cancel(const common::TaskLease& lease) override;
  std::vector<common::TaskLease> cancel_waiting() override;
  std::vector<worker::JobResult> take_results() override;
  int results_fd() const override { return results_ready_.fd(); }

  // Ends the tasks whose time has come.
  void finish();

 private:
  struct Running {
    worker::Job job;
    int64_t due_ns = 0;
  };
  SimulatedDevices& devices_;
  std::mutex mutex_;              // guards what follows
  std::vector<Running> running_;  // in the order in which they end; the first is on the device
  int64_t free_ns_ = 0;           // the device, after all of them
  std::vector<worker::JobResult> results_;
  common::Waker results_ready_;
};

}  // namespace chaos
