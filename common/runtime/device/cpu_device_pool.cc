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
  state_.fetch_add(uint64_t{1} << kRunShift);
  state_.notify_all();
  for (std::thread& thread : helpers_) thread.join();
}

bool CpuPool::try_run(void (*job)(void*, int), void* context) {
  std::unique_lock lock(running_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (team_ != nullptr) {
    team_->run(threads_, job, context);
    return true;
  }
  const SteadyClock clock;
  const int64_t start_ns = clock.now_ns();
  joined_.store(0, std::memory_order_relaxed);
  job_ = job;
  context_ = context;
  int crowded = crowded_.load(std::memory_order_relaxed);
  if (crowded > 0) crowded_.store(crowded - 1, std::memory_order_relaxed);
  const uint64_t run = (state_.load(std::memory_order_relaxed) >> kRunShift) + 1;
  state_.store(run << kRunShift, std::memory_order_release);
  state_.notify_all();
  job(context, 0);
  state_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (int spin = 0; spin < kSpins && has_helpers(); ++spin) pause_briefly();
  if (has_helpers()) {
    wait_for_helpers();
  } else if (joined_.load(std::memory_order_relaxed) < threads_ - 1 &&
             clock.now_ns() - start_ns > kStallNs) {
    note_stall();
  }
  return true;
}

// A helper has more to do or was descheduled. In the second case it may need this processor. The
// caller yields only after a while: on a busy machine it loses its time slice by that.
void CpuPool::wait_for_helpers() {
  SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  while (has_helpers()) {
    clock.now_ns() - start_ns < kStallNs ? pause_briefly() : std::this_thread::yield();
  }
  if (clock.now_ns() - start_ns > kStallNs) note_stall();
}

void CpuPool::note_stall() {
  stalls_.fetch_add(1, std::memory_order_relaxed);
  crowded_.store(kCrowdedLaunches, std::memory_order_relaxed);
}

// Takes part in the run that is open, unless it is `seen`, the last that this helper looked at.
bool CpuPool::join(uint64_t& seen) {
  bool joins = false;
  uint64_t state = state_.load(std::memory_order_acquire);
  while (state >> kRunShift != seen && (state & kClosed) == 0) {
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
    joined_.fetch_add(1, std::memory_order_relaxed);
    joins = true;
    break;
  }
  seen = state >> kRunShift;
  return joins;
}

void CpuPool::helper(int member) {
  uint64_t seen = 0;
  while (true) {
    int spins = crowded_.load(std::memory_order_relaxed) > 0 ? kCrowdedSpins : kSpins;
    uint64_t state = state_.load(std::memory_order_acquire);
    for (int spin = 0; spin < spins && state >> kRunShift == seen; ++spin) {
      pause_briefly();
      state = state_.load(std::memory_order_acquire);
    }
    // What changes within a run wakes nobody.
    while (state >> kRunShift == seen) {
      state_.wait(state, std::memory_order_acquire);
      state = state_.load(std::memory_order_acquire);
    }
    if (stop_.load()) return;
    if (!join(seen)) continue;
    job_(context_, member);
    state_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace common
