// Workers that speak the real protocol over real sockets and take a fixed time for each task: the
// farm's side of a benchmark that is about the coordinator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/farm/simulated_answers.h"

namespace bench {

struct WorkersOptions {
  size_t workers = 64;
  size_t threads = 1;
  uint32_t slots = 4;                 // tasks held at once, one of them on the device
  double task_ms = 50;                // on the device
  bool answers = true;                // otherwise tasks are taken and kept
  uint64_t answers_max = UINT64_MAX;  // of all workers together; further tasks are kept
  AnswersFrom answers_from = AnswersFrom::kFingerprints;
};

struct WorkersReport {
  uint64_t tasks = 0;     // that arrived
  uint64_t answers = 0;   // that were sent
  uint64_t searches = 0;  // baselines that arrived: each search has one
  int64_t first_task_ns = 0;
  int64_t finalist_ns = 0;  // when the last finalist arrived
  // From an answer until a task takes its place.
  std::vector<double> turnaround_ms;
};

// Each worker runs its tasks one after the other. All functions are for one thread.
class SimulatedWorkers {
 public:
  SimulatedWorkers(const FarmUnderLoad& farm, const WorkersOptions& options);
  ~SimulatedWorkers();
  SimulatedWorkers(const SimulatedWorkers&) = delete;
  SimulatedWorkers& operator=(const SimulatedWorkers&) = delete;

  // Returns once all have been welcomed; false when that takes more than a minute.
  bool wait_until_welcome() const;
  // Tasks held now, all workers together, and the time at which the last one arrived.
  uint64_t held() const { return held_; }
  uint64_t tasks() const { return tasks_; }
  uint64_t answers() const { return answers_; }
  uint64_t searches() const { return searches_; }
  // Forgets what was counted so far.
  void count_from_now();
  // When the first task came since count_from_now(); 0: none yet.
  int64_t first_task_ns() const { return first_task_ns_; }
  // Ends the threads.
  WorkersReport finish();

 private:
  class Worker;
  class Crew;
  const WorkersOptions options_;
  std::atomic<uint64_t> welcomed_{0};
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> tasks_{0};
  std::atomic<uint64_t> answers_{0};
  std::atomic<uint64_t> searches_{0};
  std::atomic<int64_t> first_task_ns_{0};
  std::atomic<int64_t> finalist_ns_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Crew>> crews_;
  std::vector<std::thread> threads_;
};

}  // namespace bench
