// A whole farm in one thread under virtual time: clients, workers and a bad network around the
// real scheduler, all driven by one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "coordinator/farm/scheduler.h"
#include "farm_auditor.h"

namespace sim {

// Probabilities per message or per second, while faults last.
struct Faults {
  double drop = 0;
  double duplicate = 0;
  double long_delay = 0;       // of up to 4 s, so that messages overtake one another
  double crash = 0;            // a worker's process dies
  double partition = 0;        // a worker is cut off for up to 20 s
  double drain = 0;            // a worker drains, leaves and comes back
  double infra = 0;            // per task
  double cancel = 0;           // a job
  double restart = 0;          // the coordinator
  bool in_order = false;       // messages between two ends arrive in the order of sending
  bool late_workers = false;   // one target has no worker at first
  bool bad_candidates = true;  // some candidates crash, hang or kill their worker
};

struct Report {
  std::string failure;  // empty: all rules held
  uint64_t trace = 0;   // hash of all events and actions
  size_t events = 0, committed = 0, given_up = 0, stale = 0, quarantined = 0, no_worker = 0;
  size_t overfull = 0;  // tasks that reached a worker without a free slot
};

class World {
 public:
  World(uint64_t seed, const Faults& faults, bool verbose);
  // Runs until every task is closed after the faults have stopped, or something went wrong.
  Report run();

 private:
  using Lease = std::pair<TaskId, Epoch>;
  enum class Nature { kGood, kSlow, kWrong, kRefused, kCrashes, kHangs, kKills, kFreezes };
  struct Running {
    int64_t since_ms = 0;
    bool dying = false;  // revoked, but its executor is not dead yet
  };
  struct Worker {
    WorkerId id = 0;
    std::string target;
    uint32_t slots = 1;
    uint64_t incarnation = 0;
    bool up = false;
    bool draining = false;
    int64_t cut_off_until_ms = 0;
    std::map<Lease, Running> held;
    std::set<Lease> over;  // finished or revoked: never run again
  };
  struct Later {
    int64_t at_ms;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Later& other) const {
      return std::make_pair(at_ms, order) > std::make_pair(other.at_ms, other.order);
    }
  };

  void at(int64_t ms, std::function<void()> what);
  bool faulty() const { return now_ms_ < kFaultsEndMs; }
  bool strikes(double probability) { return faulty() && random_.chance(probability); }
  void make_jobs();
  void add_task(JobId job);
  void each_second();
  void tick();
  void restart_coordinator();
  void on_event(const Event& event);
  void carry_out(const Action& action);
  void to_farm(Worker& worker, Event event);
  void to_worker(WorkerId worker, Action action);
  int64_t arrival_ms(int64_t& last_ms);
  void start(Worker& worker);
  void stop(Worker& worker);
  void hello(Worker& worker);
  void beat(Worker& worker);
  void receive(Worker& worker, const Action& action);
  void bury(Worker& worker, uint64_t incarnation, Lease lease);
  void take(Worker& worker, const SendTask& task);
  void finish(Worker& worker, uint64_t incarnation, Lease lease);
  void report(Worker& worker, Lease lease, TaskOutcome outcome);
  Nature nature(TaskId task) const;
  bool done() const;

  static constexpr int64_t kFaultsEndMs = 60'000;
  static constexpr int64_t kEndMs = 600'000;

  common::Random random_;
  Faults faults_;
  bool verbose_;
  Config config_;
  std::unique_ptr<Scheduler> scheduler_;
  Auditor auditor_;
  int64_t now_ms_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Later> later_;
  std::map<WorkerId, Worker> workers_;
  std::map<WorkerId, std::pair<int64_t, int64_t>> last_arrival_ms_;  // to the farm, to the worker
  std::map<TaskId, common::Digest> candidates_;
  std::set<JobId> live_jobs_;
  TaskId tasks_made_ = 0;
  Handle results_made_ = 0;
  Report report_;
};

}  // namespace sim
