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
  size_t first = 0;  // the first one's number, in its name
  size_t threads = 1;
  uint32_t slots = 4;                 // tasks of a coordinator held at once; one runs
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
  uint64_t finalists = 0;   // that arrived: each search ends with one
  int64_t finalist_ns = 0;  // when the last of them arrived
  // From an answer until a task takes its place.
  std::vector<double> turnaround_ms;
};

// Each worker runs its tasks one after the other, whichever coordinator they come from. All
// functions are for one thread.
class SimulatedWorkers {
 public:
  // All of them connect to each of the coordinators.
  SimulatedWorkers(const std::vector<const FarmUnderLoad*>& farms, const WorkersOptions& options);
  SimulatedWorkers(const FarmUnderLoad& farm, const WorkersOptions& options)
      : SimulatedWorkers(std::vector<const FarmUnderLoad*>{&farm}, options) {}
  ~SimulatedWorkers();
  SimulatedWorkers(const SimulatedWorkers&) = delete;
  SimulatedWorkers& operator=(const SimulatedWorkers&) = delete;

  // Returns once all have been welcomed everywhere; false when that takes more than a minute.
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
  class Link;
  class Crew;
  const WorkersOptions options_;
  const size_t links_;  // connections of all workers
  std::atomic<uint64_t> welcomed_{0};
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> tasks_{0};
  std::atomic<uint64_t> answers_{0};
  std::atomic<uint64_t> searches_{0};
  std::atomic<int64_t> first_task_ns_{0};
  std::atomic<uint64_t> finalists_{0};
  std::atomic<int64_t> finalist_ns_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Crew>> crews_;
  std::vector<std::thread> threads_;
};

}  // namespace bench
