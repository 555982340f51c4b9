// The coordinator around the real scheduler: jobs, their journal on the simulated disk, and what a
// new coordinator makes of it. It keeps the rules of coordinator/service: a verdict is told once it
// is written, a job is accepted once it is written, and what has no verdict is asked for again.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "farm_auditor.h"
#include "farm_disk.h"
#include "farm_ledger.h"
#include "farm_scene.h"
#include "flawed_scheduler.h"

namespace sim {

class Desk {
 public:
  explicit Desk(Scene& scene);

  bool is_up() const { return is_up_; }
  // The process dies, at any moment; another one starts at `back_ms`.
  void kill(int64_t back_ms);
  // It stands still until then: what arrives waits, what it holds stays.
  void stall_until(int64_t ms);

  // Messages; nothing that arrives while it is down is heard.
  void submit(const std::shared_ptr<const JobPlan>& plan);
  void cancel(uint64_t key);
  void from_worker(Event event);
  void tick() { from_worker(Tick{}); }

  Disk& disk() { return disk_; }
  Ledger& ledger() { return ledger_; }
  const Auditor& auditor() const { return auditor_; }
  const Scheduler& scheduler() const { return scheduler_->scheduler(); }
  // Nothing to do, and nothing half done.
  bool is_quiet() const;

 private:
  struct Job {
    std::shared_ptr<const JobPlan> plan;
    bool is_admitted = false;
    bool is_ending = false;
    std::map<uint64_t, Verdict> known;
    size_t told = 0;
  };
  void start();
  void hear(std::function<void()> what);
  void feed(Event event);
  void handle(const Event& event);
  void carry_out(const Action& action);
  void on_committed(TaskId task, const Verdict& verdict);
  void begin(JobId id);
  void propose(JobId id, uint64_t candidate);
  void tell(JobId id, uint64_t candidate, const Verdict& verdict);
  void end_if_complete(JobId id);
  void fail(JobId id);
  void drop(JobId id);
  // What runs later unless the process died before.
  std::function<void()> while_alive(std::function<void()> what);

  Scene& scene_;
  const Config config_;
  Disk disk_;
  Ledger ledger_;
  Auditor auditor_;
  std::unique_ptr<FlawedScheduler> scheduler_;
  bool is_up_ = false;
  uint64_t generation_ = 0;
  int64_t stalled_until_ms_ = 0;
  std::deque<std::function<void()>> inbox_;  // while it stands still
  std::deque<Event> events_;
  bool is_pumping_ = false;
  uint64_t jobs_made_ = 0;
  uint64_t tasks_made_ = 0;
  std::map<JobId, Job> jobs_;
  std::map<uint64_t, JobId> by_key_;
  std::map<uint64_t, News> ended_;  // by key
  std::unordered_map<TaskId, std::pair<JobId, uint64_t>> tasks_;
  std::map<common::Digest, bool> banned_;
};

}  // namespace sim
