// A fixed set of threads that share out the units of one launch at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/runtime/device/openmp_team.h"

namespace common {

// Threads wait in a short spin, then asleep: launches follow each other within microseconds.
class CpuPool {
 public:
  // The caller counts as one of `threads`, which is at least 1. With a `team` the others are its
  // threads instead of the pool's own.
  explicit CpuPool(int threads, std::shared_ptr<const OpenMpTeam> team = nullptr);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  int threads() const { return threads_; }

  // Calls job(context, member) once on each of `threads()` members and returns when all are done;
  // the caller is member 0. Returns false without calling anything when another thread's run is
  // under way.
  bool try_run(void (*job)(void* context, int member), void* context);

  // Runs so far in which the caller waited for a helper much longer than it takes to wake one. A
  // team's are not seen.
  uint64_t stalls() const { return stalls_.load(std::memory_order_relaxed); }

 private:
  void helper(int member);
  void wait_for_helpers();
  const int threads_;
  const std::shared_ptr<const OpenMpTeam> team_;
  std::mutex running_;
  std::atomic<uint64_t> round_{0};
  std::atomic<int> left_{0};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> stalls_{0};
  std::atomic<int> crowded_{0};  // launches for which helpers spin longer
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::vector<std::thread> helpers_;
};

}  // namespace common
