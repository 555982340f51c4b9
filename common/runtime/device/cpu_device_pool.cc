#include "common/runtime/device/cpu_device_pool.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace common {
namespace {

// About 20 microseconds: longer than the gap between the launches of one run.
constexpr int kSpins = 2000;
// Where threads wait for processors, a helper that slept as soon would miss the caller's next
// launch and the caller its end, again and again: for so many launches after a stall it spins for
// half a millisecond.
constexpr int kCrowdedSpins = 50'000;
constexpr int kCrowdedLaunches = 1'000;
// Waking a helper takes some 50 microseconds, waiting for its processor a time slice.
constexpr int64_t kStallNs = 300'000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

CpuPool::CpuPool(int threads, std::shared_ptr<const OpenMpTeam> team)
    : threads_(std::max(1, threads)), team_(std::move(team)) {
  if (team_ != nullptr) return;
  for (int member = 1; member < threads_; ++member) {
    helpers_.emplace_back([this, member] { helper(member); });
  }
}

CpuPool::~CpuPool() {
  stop_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& thread : helpers_) thread.join();
}

bool CpuPool::try_run(void (*job)(void*, int), void* context) {
  std::unique_lock lock(running_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (team_ != nullptr) {
    team_->run(threads_, job, context);
    return true;
  }
  job_ = job;
  context_ = context;
  left_.store(static_cast<int>(helpers_.size()), std::memory_order_relaxed);
  int crowded = crowded_.load(std::memory_order_relaxed);
  if (crowded > 0) crowded_.store(crowded - 1, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  job(context, 0);
  for (int spin = 0; spin < kSpins && left_.load(std::memory_order_acquire) != 0; ++spin) {
    pause_briefly();
  }
  if (left_.load(std::memory_order_acquire) != 0) wait_for_helpers();
  return true;
}

// A helper has more to do, is being woken or was descheduled. In the last case it may need this
// processor; before that is certain, whoever yields on a busy machine loses its own time slice.
void CpuPool::wait_for_helpers() {
  SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  while (left_.load(std::memory_order_acquire) != 0) {
    clock.now_ns() - start_ns < kStallNs ? pause_briefly() : std::this_thread::yield();
  }
  if (clock.now_ns() - start_ns <= kStallNs) return;
  stalls_.fetch_add(1, std::memory_order_relaxed);
  crowded_.store(kCrowdedLaunches, std::memory_order_relaxed);
}

void CpuPool::helper(int member) {
  uint64_t seen = 0;
  while (true) {
    int spins = crowded_.load(std::memory_order_relaxed) > 0 ? kCrowdedSpins : kSpins;
    for (int spin = 0; spin < spins && round_.load(std::memory_order_acquire) == seen; ++spin) {
      pause_briefly();
    }
    round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    job_(context_, member);
    left_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace common
