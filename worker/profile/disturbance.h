// Tells whether a measured interval was disturbed: whether the operating system ran something else
// on a processor that the measured code needed, for more than a small part of the interval.
//
// Sources: the process's involuntary context switches (getrusage) and how long its threads waited
// after them (run_delay.h), the calling thread's processor time against the clock, which a
// hypervisor's stolen time falls short of, and launches that waited for a thread without a
// processor (Device::stalls). On a device with memory of its own the host only waits, so that
// nothing on the host disturbs it.
#pragma once

#include <cstdint>
#include <optional>

#include "common/runtime/device/device.h"

namespace worker {

class DisturbanceMeter {
 public:
  // The device outlives it.
  explicit DisturbanceMeter(const common::Device& device) : device_(device) {}

  // Both are called by the thread that measures; each costs about a microsecond, and where
  // intervals are long what run_delay_ns() takes.
  void begin();
  // Whether the interval since begin() was disturbed.
  bool end();

 private:
  struct Counters {
    int64_t wall_ns = 0;
    int64_t processor_ns = 0;  // of the calling thread
    int64_t switches = 0;      // involuntary, of all threads of the process
    int64_t waits = 0;         // voluntary context switches of the calling thread
    uint64_t stalls = 0;
  };
  Counters read() const;

  const common::Device& device_;
  Counters begin_;
  bool is_long_ = false;              // the last interval
  std::optional<int64_t> delays_ns_;  // at the begin of a long one
};

}  // namespace worker
