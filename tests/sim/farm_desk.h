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
#include "farm_shared.h"
#include "flawed_scheduler.h"

namespace sim {

class Desk {
 public:
  explicit Desk(Scene& scene);

  bool is_up() const { return is_up_; }
  // The process dies, at any moment; another one starts at `back_ms`.
  void kill(int64_t back_ms);
  // The same, and the other one is another replica, which has a disk of its own.
  void fail_over(int64_t back_ms);
  void cut_off_shared_store(int64_t until_ms);
  // It stands still until then: what arrives waits, what it holds stays.
  void stall_until(int64_t ms);

  // Messages; nothing that arrives while it is down is heard.
  void submit(const std::shared_ptr<const JobPlan>& plan);
  void cancel(uint64_t key);
  // Withdraws the plan that there is for the key; false when there is none.
  bool revoke(uint64_t key);
  void from_worker(Event event);
  void tick();

  Disk& disk() { return leader().disk; }
  // A worker found this, whoever asked it.
  void found(Handle result, TaskId task, TaskOutcome outcome);
  const Auditor& auditor() const { return auditor_; }
  const Scheduler& scheduler() const { return scheduler_->scheduler(); }
  // Nothing to do, and nothing half done.
  bool is_quiet() const;

 private:
  static constexpr size_t kReplicas = 3;
  // What outlives its processes.
  struct Replica {
    explicit Replica(Scene& scene) : disk(scene), ledger(scene) {}
    Disk disk;
    Ledger ledger;
    uint64_t jobs_made = 0;
    uint64_t generation = 0;
    std::set<common::Digest> banned;  // on its disk
  };
  Replica& leader() { return *replicas_[leader_]; }
  bool is_quiet_disk() const { return replicas_[leader_]->disk.idle(); }
  void exchange_with_shared_store();
  void serve(uint64_t key);
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
  std::vector<std::unique_ptr<Replica>> replicas_;
  size_t leader_ = 0;
  SharedStore shared_;
  Auditor auditor_;
  std::unique_ptr<FlawedScheduler> scheduler_;
  bool is_up_ = false;
  uint64_t generation_ = 0;
  int64_t stalled_until_ms_ = 0;
  std::deque<std::function<void()>> inbox_;  // while it stands still
  std::deque<Event> events_;
  bool is_pumping_ = false;
  uint64_t tasks_made_ = 0;
  uint64_t first_task_ = 0;
  std::set<TaskId> all_tasks_;  // of all replicas
  uint64_t plans_made_ = 0;
  std::map<JobId, Job> jobs_;
  std::map<uint64_t, JobId> by_key_;
  std::set<uint64_t> failed_;           // keys
  std::map<uint64_t, uint64_t> plans_;  // by key
  std::set<uint64_t> revoked_;          // that this leader knows of
  std::map<uint64_t, uint64_t> unshared_;
  bool could_read_at_start_ = false;  // the shared store answered when it began to lead
  int64_t look_ms_ = 0;
  std::unordered_map<TaskId, std::pair<JobId, uint64_t>> tasks_;
  std::map<common::Digest, bool> banned_;
};

}  // namespace sim
