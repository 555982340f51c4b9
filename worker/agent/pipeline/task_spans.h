// What a worker's time for one task went on, for the trace of the job that it belongs to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/wire/messages.h"

namespace worker {

class TaskSpans {
 public:
  // `received_ns`: when the task came, on the clock of all that follows.
  explicit TaskSpans(int64_t received_ns = 0) : received_ns_(received_ns) {}

  // In the order in which they began. What took no time is left out.
  void add(const char* step, int64_t from_ns, int64_t to_ns) {
    if (to_ns <= from_ns || spans_.size() >= common::kTaskSpansMax) return;
    double start_ms = static_cast<double>(std::max<int64_t>(0, from_ns - received_ns_)) * 1e-6;
    spans_.push_back({step, start_ms, static_cast<double>(to_ns - from_ns) * 1e-6});
  }
  // A run, and what it says it took to verify and to measure, one after the other at its end.
  void add_run(int64_t from_ns, int64_t to_ns, double verify_ms, double measure_ms) {
    add("run", from_ns, to_ns);
    int64_t measured_ns = to_ns - static_cast<int64_t>(measure_ms * 1e6);
    int64_t verified_ns = measured_ns - static_cast<int64_t>(verify_ms * 1e6);
    if (verified_ns < from_ns) return;  // it cannot be so
    add("verify", verified_ns, measured_ns);
    add("measure", measured_ns, to_ns);
  }
  std::vector<common::TaskSpan> take() { return std::move(spans_); }

 private:
  int64_t received_ns_;
  std::vector<common::TaskSpan> spans_;
};

}  // namespace worker
