// What the agent does with a task between receiving it and answering it: compile, then verify and
// measure, one task compiling while another one runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/context.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"
#include "worker/agent/compiler_pauses.h"
#include "worker/agent/task_spans.h"
#include "worker/compile/build_plan.h"
#include "worker/profile/executor_client.h"

namespace worker {

// A task whose blobs are all here.
struct Job {
  common::TaskLease lease;
  common::Bytes payload;  // encoded TaskPayload
  std::map<common::Digest, common::SharedBytes> blobs;
  int64_t received_ns = 0;  // on the steady clock
  int64_t deadline_ns = 0;  // the answer must be out by then
};

struct JobResult {
  common::TaskResult message;
  std::map<common::Digest, std::shared_ptr<const common::Bytes>> blobs;  // that the report names
};

// The agent's view, so that tests can put a scripted one in its place. Thread-safe.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual void submit(Job job) = 0;
  // No result of this lease comes any more, as soon as this returns. True when nothing had been
  // done for it yet.
  virtual bool cancel(const common::TaskLease& lease) = 0;
  // Cancels what has not reached the device and says what that was.
  virtual std::vector<common::TaskLease> cancel_waiting() = 0;
  virtual std::vector<JobResult> take_results() = 0;
  // Readable when there are results; cleared by take_results().
  virtual int results_fd() const = 0;
};

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

  void submit(Job job) override;
  bool cancel(const common::TaskLease& lease) override;
  std::vector<common::TaskLease> cancel_waiting() override;
  std::vector<JobResult> take_results() override;
  int results_fd() const override { return results_ready_.fd(); }

 private:
  struct Waiting {
    Job job;
    int64_t since_ns = 0;
  };
  struct Compiled {
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

  void compile_loop();
  void run_loop();
  // Empty when the job ended here, with its result delivered.
  std::unique_ptr<Compiled> compile(Waiting waiting);
  // Runs it, and says how long it verified and measured.
  JobResult run(ExecutorClient& executor, Compiled& job, ProfileReply* reply);
  void deliver(JobResult result);
  int64_t left_ms(int64_t deadline_ns) const;

  PipelineOptions options_;
  std::unique_ptr<const CodeGenerator> generator_;
  std::shared_ptr<const Compiler> compiler_;
  std::unique_ptr<CompilerPauses> pauses_;  // may be null
  KernelCache cache_;
  common::SteadyClock clock_;
  common::Waker results_ready_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  std::deque<std::unique_ptr<Compiled>> compiled_;
  std::set<common::TaskLease> active_;  // being compiled or run, not cancelled
  common::TaskLease running_;           // on the device now
  ExecutorClient* executor_ = nullptr;  // of the run thread, while it lives
  std::vector<JobResult> results_;
  bool stop_ = false;

  std::thread compile_thread_;
  std::thread run_thread_;
};

}  // namespace worker
