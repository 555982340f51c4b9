// The scheduler's deadlines in one ordered set, so that a tick touches only what is due.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <tuple>

namespace coordinator::farm {

enum class TimerKind : uint8_t { kLease, kParked, kHeartbeat, kSuspension, kNoWorker };

struct Timer {
  int64_t when_ns = 0;
  TimerKind kind = TimerKind::kLease;
  uint64_t id = 0;      // task, worker or job
  uint64_t detail = 0;  // kNoWorker: the pool
  friend bool operator<(const Timer& a, const Timer& b) {
    return std::tie(a.when_ns, a.kind, a.id, a.detail) <
           std::tie(b.when_ns, b.kind, b.id, b.detail);
  }
};

class Timers {
 public:
  void arm(const Timer& timer) { timers_.insert(timer); }
  void disarm(const Timer& timer) { timers_.erase(timer); }
  std::optional<int64_t> next_ns() const {
    if (timers_.empty()) return std::nullopt;
    return timers_.begin()->when_ns;
  }
  // Removes and returns the earliest timer due at `now_ns`.
  std::optional<Timer> pop_due(int64_t now_ns) {
    if (timers_.empty() || timers_.begin()->when_ns > now_ns) return std::nullopt;
    Timer due = *timers_.begin();
    timers_.erase(timers_.begin());
    return due;
  }
  size_t size() const { return timers_.size(); }

 private:
  std::set<Timer> timers_;
};

}  // namespace coordinator::farm
