// Runs one loaded program in samples: so many runs in a row that clocks and counters can tell what
// they took and whether they were disturbed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/runtime/executor/executor.h"
#include "worker/profile/disturbance.h"

namespace worker {

class Sampler {
 public:
  // Both outlive it. Weights and states are bound already.
  Sampler(common::Executor& executor, std::span<const common::HostTensor> inputs);

  // Of one sample.
  struct Sample {
    std::vector<uint64_t> run_ns;
    bool is_disturbed = false;
  };
  // Runs the program for `least_ns` of the device's time, and once at least. A run that the driver
  // says was slowed down ends the sample; one that waited for a processor does not, though it may
  // have taken ten thousand times as long: it fills no more of the sample than some usual runs, and
  // the sample has others to tell it from.
  common::Result<Sample> take(int64_t least_ns);
  // One run whose time does not count: it brings the program's data back into the caches.
  common::Result<int64_t> warm_up();
  // Warm-ups until the executor has settled, as short runs do; long ones need none.
  common::Status settle();
  // The same of one run's calls, timed one by one.
  struct CallSample {
    std::vector<std::vector<int64_t>> runs;  // of each run, of each call
    bool is_disturbed = false;
  };
  common::Result<CallSample> take_calls(int64_t least_ns);

 private:
  // Of the time that a run took, what fills a sample.
  int64_t filling_ns(int64_t run_ns);

  common::Executor& executor_;
  std::span<const common::HostTensor> inputs_;
  common::RunOutputs outputs_;
  DisturbanceMeter meter_;
  int64_t least_ns_ = 0;  // of all runs; 0: there was none
};

}  // namespace worker
