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

  // Calls job(context, member) on the caller, member 0, and on those of the other members that come
  // before the caller's call returns, and returns when all calls have. So a job takes what is left
  // of the work until there is none: where threads wait for processors, nobody waits for a helper
  // that has not begun. Returns false without calling anything when another thread's run is under
  // way.
  bool try_run(void (*job)(void* context, int member), void* context);

  // Runs so far in which the caller waited for a helper, or worked without one, much longer than it
  // takes to wake one. A team's are not seen.
  uint64_t stalls() const { return stalls_.load(std::memory_order_relaxed); }

 private:
  // A run's number, whether it takes no more helpers, and how many are at work.
  static constexpr uint64_t kHelpers = 0x7fff, kClosed = 0x8000;
  static constexpr int kRunShift = 16;

  void helper(int member);
  bool join(uint64_t& seen);
  bool has_helpers() const { return (state_.load(std::memory_order_acquire) & kHelpers) != 0; }
  void wait_for_helpers();
  void note_stall();
  const int threads_;
  const std::shared_ptr<const OpenMpTeam> team_;
  std::mutex running_;
  std::atomic<uint64_t> state_{kClosed};
  std::atomic<int> joined_{0};  // helpers that have begun the latest run
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> stalls_{0};
  std::atomic<int> crowded_{0};  // launches for which helpers spin longer
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::vector<std::thread> helpers_;
};

}  // namespace common
