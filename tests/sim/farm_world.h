// A whole farm in one thread under virtual time: clients, workers and a bad network around the
// coordinator, all driven by one seed.
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

#include "farm_desk.h"
#include "farm_scene.h"

namespace sim {

class World final : private Scene {
 public:
  World(uint64_t seed, const Faults& faults, bool verbose, Defect defect = Defect::kNone);
  // Runs until every client has its answer after the faults have stopped, or something went wrong.
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
    int64_t frozen_until_ms = 0;
    uint64_t connection = 0;        // messages of an earlier one are lost
    uint64_t known_connection = 0;  // on which the farm heard its last hello
    int64_t last_to_farm_ms = 0;    // arrival of the last message
    int64_t last_from_farm_ms = 0;
    std::map<Lease, Running> held;
    std::set<Lease> over;  // finished or revoked: never run again
  };
  struct Client {
    std::shared_ptr<const JobPlan> plan;
    int64_t start_ms = 0;
    bool is_over = false;  // it has its answer, or does not want it any more
  };
  struct Later {
    int64_t at_ms;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Later& other) const {
      return std::make_pair(at_ms, order) > std::make_pair(other.at_ms, other.order);
    }
  };

  int64_t now_ms() const override { return now_ms_; }
  void at(int64_t ms, std::function<void()> what) override;
  void to_worker(WorkerId worker, const Action& action) override;
  void to_client(uint64_t key, News news) override;
  void fail(const std::string& what) override;
  void record(const std::string& line) override;

  void make_workers();
  void make_clients();
  void ask(uint64_t key);
  void each_second();
  void trouble_coordinator();
  void tick();
  void to_farm(Worker& worker, const Event& event);
  void deliver(WorkerId id, uint64_t connection, const Action& action);
  void damage(Worker& worker, const Event& event);
  void lose_connection(Worker& worker);
  int64_t arrival_ms(int64_t& last_ms);
  void start(Worker& worker);
  void stop(Worker& worker);
  void hello(Worker& worker);
  void beat(Worker& worker);
  void receive(Worker& worker, const Action& action);
  void bury(Worker& worker, uint64_t incarnation, Lease lease);
  void take(Worker& worker, const SendTask& task);
  void finish(WorkerId id, uint64_t incarnation, Lease lease);
  void report_outcome(Worker& worker, Lease lease, TaskOutcome outcome);
  Nature nature(const common::Digest& fingerprint) const;
  bool is_done() const;

  static constexpr int64_t kEndMs = 600'000;

  const bool verbose_;
  Desk desk_;
  int64_t now_ms_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Later> later_;
  std::map<WorkerId, Worker> workers_;
  std::map<uint64_t, Client> clients_;
  Handle results_made_ = 0;
};

}  // namespace sim
