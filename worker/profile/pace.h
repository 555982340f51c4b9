// The machine's pace: what a fixed piece of work takes now, over the least that it ever took here.
// A neighbour on the same core's second thread or a lowered clock shows in it, which no counter of
// this process tells.
#pragma once

#include <cstdint>
#include <vector>

namespace worker {

// Of the calling thread's processor. Not thread-safe.
class PaceMeter {
 public:
  // Does the work a few times, some 100 microseconds together. 1: as fast as ever.
  double measure();

 private:
  int64_t work();
  std::vector<float> memory_;  // what a second-level cache holds
  int64_t least_ns_ = 0;       // 0: never measured
  float sink_ = 0;
};

}  // namespace worker
