// What the farm promised to those outside, over all of its restarts: an accepted job is not lost, a
// verdict that was told stays, is what a worker found, and is not measured again.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "farm_scene.h"

namespace sim {

class Ledger {
 public:
  explicit Ledger(Scene& scene) : scene_(scene) {}

  void accepted(JobId job);
  // The task stands for the job's candidate from now on.
  void asked(TaskId task, JobId job, uint64_t candidate);
  void sent(TaskId task);
  // A worker found this, whether or not it arrives.
  void found(Handle result, TaskId task, TaskOutcome outcome);
  // The search learns a verdict, because it just came or from the journal.
  void told(JobId job, uint64_t candidate, const Verdict& verdict);
  // The job's plan is kept, made of so many candidates; its client is told.
  void done(JobId job, size_t candidates);
  // The job ended without a plan, for a reason that was given.
  void failed(JobId job);

  // After a restart: every job that came back, with what the journal knows, then recovered_all().
  void restart();
  void recovered(JobId job);
  void recovered_done(JobId job, size_t candidates);
  void recovered_all();

 private:
  enum class State : uint8_t { kOpen, kDone, kFailed };
  struct Job {
    State state = State::kOpen;
    bool is_back = true;  // in the present life of the coordinator
    std::map<uint64_t, Verdict> known;
    std::map<uint64_t, uint64_t> told_in;  // candidate -> life
  };
  struct TuningRecord {
    TaskId task = 0;
    TaskOutcome outcome = TaskOutcome::kOk;
  };
  void check_truth(JobId job, uint64_t candidate, const Verdict& verdict);

  Scene& scene_;
  uint64_t life_ = 0;
  std::map<JobId, Job> jobs_;
  std::map<TaskId, std::pair<JobId, uint64_t>> tasks_;
  std::map<Handle, TuningRecord> tuning_records_;
};

}  // namespace sim
