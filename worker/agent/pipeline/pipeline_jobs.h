// The jobs of a pipeline and how far they are: they wait for the compiler, wait for the device,
// run, or have a result that nobody took yet.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "common/wire/context.h"
#include "worker/agent/pipeline/pipeline.h"
#include "worker/agent/pipeline/task_spans.h"
#include "worker/compile/build_plan.h"
#include "worker/profile/executor_client.h"

namespace worker {

struct WaitingJob {
  Job job;
  int64_t since_ns = 0;
};

struct CompiledJob {
  common::TaskLease lease;
  TaskSpans spans;
  int64_t since_ns = 0;  // it is compiled
  int64_t deadline_ns = 0;
  common::SharedBytes graph;
  common::TaskPayload payload;
  BuiltPlan built;
  std::vector<BuiltPlan> rivals;  // of a comparison
  int64_t compile_ns = 0;         // what came before the run
};

// Thread-safe: an agent's thread submits, cancels and takes results, one thread compiles, and one
// runs.
class PipelineJobs {
 public:
  // As of Pipeline.
  void submit(Job job, int64_t now_ns);
  bool cancel(const common::TaskLease& lease);
  std::vector<common::TaskLease> cancel_waiting();
  std::vector<JobResult> take_results();
  int results_fd() const { return results_ready_.fd(); }

  // Waits for a job to compile and for room for it once it is compiled; empty after stop().
  std::optional<WaitingJob> next_to_compile();
  // Drops a job that was cancelled meanwhile.
  void add_compiled(std::unique_ptr<CompiledJob> job);
  // Waits for a job to run; null after stop(). Until the next call, cancelling the job interrupts
  // the executor, as does stop().
  std::unique_ptr<CompiledJob> next_to_run(ExecutorClient& executor);
  // Ends a job. Drops the result of one that was cancelled meanwhile.
  void deliver(JobResult result);
  // Ends all waiting, for good.
  void stop();

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<WaitingJob> waiting_;
  std::deque<std::unique_ptr<CompiledJob>> compiled_;
  std::set<common::TaskLease> active_;  // being compiled or run, not cancelled
  common::TaskLease running_;           // on the device now
  ExecutorClient* executor_ = nullptr;  // of the run thread, while it lives
  std::vector<JobResult> results_;
  common::Waker results_ready_;
  bool is_stopping_ = false;
};

}  // namespace worker
