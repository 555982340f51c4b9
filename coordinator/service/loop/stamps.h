// Times of what is kept: those of the wall clock, but each after all earlier ones, however the
// clock is set. By them a search leaves out what was measured after it began, and that alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "common/base/clock.h"

namespace coordinator::service {

// Thread-safe.
class Stamps {
 public:
  explicit Stamps(std::function<int64_t()> wall_ns = common::wall_clock_ns)
      : wall_ns_(std::move(wall_ns)) {}

  int64_t now_ns() {
    int64_t now = wall_ns_();
    std::lock_guard lock(mutex_);
    return last_ns_ = std::max(last_ns_ + 1, now);
  }
  // Of an earlier life of the coordinator, that goes on.
  void go_on_from(int64_t stamp_ns) {
    std::lock_guard lock(mutex_);
    last_ns_ = std::max(last_ns_, stamp_ns);
  }

 private:
  const std::function<int64_t()> wall_ns_;
  std::mutex mutex_;
  int64_t last_ns_ = 0;
};

}  // namespace coordinator::service
