// What becomes of a task between receiving it and answering it: compile, then verify and measure,
// one task compiling while another one runs.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "worker/agent/pipeline/measurement_pauses.h"
#include "worker/agent/pipeline/pipeline.h"
#include "worker/agent/pipeline/pipeline_jobs.h"
#include "worker/compile/build_plan.h"
#include "worker/profile/executor_client.h"

namespace worker {

struct PipelineOptions {
  std::string worker;  // its name, for the log
  common::Target target;
  std::string machine_class;  // that kernels are written for; empty: a typical one of the target
  std::vector<std::string> executor_command;
  std::shared_ptr<const common::Sandbox> sandbox;  // of the executor; may be null
  uint32_t threads = 1;                            // of a run, at most
  // The lock (worker/profile/device_lock.h) of processors that runs and compilers share; empty:
  // they do not disturb each other.
  std::string shared_lock;
};

// Compiles on one thread and runs on another, which owns the executor child.
class LocalPipeline final : public Pipeline {
 public:
  LocalPipeline(PipelineOptions options, std::unique_ptr<const CodeGenerator> generator,
                std::shared_ptr<const Compiler> compiler, std::string cache_directory,
                KernelCacheKey cache_key = KernelCacheKey::kOnDisk);
  ~LocalPipeline() override;

  void submit(Job job) override { jobs_.submit(std::move(job), clock_.now_ns()); }
  bool cancel(const common::TaskLease& lease) override { return jobs_.cancel(lease); }
  std::vector<common::TaskLease> cancel_waiting() override { return jobs_.cancel_waiting(); }
  std::vector<JobResult> take_results() override { return jobs_.take_results(); }
  int results_fd() const override { return jobs_.results_fd(); }

 private:
  void compile_loop();
  void run_loop();
  // Empty when the job ended here, with its result delivered.
  std::unique_ptr<CompiledJob> compile(WaitingJob waiting);
  // Runs it, and says how long it verified and measured.
  JobResult run(ExecutorClient& executor, CompiledJob& job, ProfileReply* reply);
  int64_t left_ms(int64_t deadline_ns) const;

  PipelineOptions options_;
  std::unique_ptr<const CodeGenerator> generator_;
  std::shared_ptr<const Compiler> compiler_;
  // Of the executor child, while it verifies; stopped by `pauses_`.
  const std::shared_ptr<common::PausableGroups> verifying_ =
      std::make_shared<common::PausableGroups>();
  std::unique_ptr<MeasurementPauses> pauses_;  // may be null
  KernelCache cache_;
  common::SteadyClock clock_;
  PipelineJobs jobs_;

  std::thread compile_thread_;
  std::thread run_thread_;
};

}  // namespace worker
