#include "worker/profile/disturbance.h"

#include <sys/resource.h>

#include <ctime>

#include "common/base/clock.h"
#include "worker/profile/run_delay.h"

namespace worker {
namespace {

// Interrupts take some microseconds of an interval without a context switch.
constexpr int64_t kMissingNs = 20'000;
constexpr int64_t kMissingShare = 20;  // and a twentieth of the interval
// Daemons of the kernel and of a farm run for some 50 microseconds every few milliseconds. In long
// intervals that is little, and hardly one is without; short ones are cheaply repeated.
constexpr int64_t kLongNs = 1'000'000;

int64_t missing_max_ns(int64_t wall_ns) { return kMissingNs + wall_ns / kMissingShare; }

int64_t ns_of(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

DisturbanceMeter::Counters DisturbanceMeter::read() const {
  Counters now;
  rusage process{}, thread{};
  ::getrusage(RUSAGE_SELF, &process);
  ::getrusage(RUSAGE_THREAD, &thread);
  now.switches = process.ru_nivcsw;
  now.waits = thread.ru_nvcsw;
  timespec processor{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &processor);
  now.processor_ns = ns_of(processor);
  now.wall_ns = common::SteadyClock().now_ns();
  now.stalls = device_.stalls();
  return now;
}

void DisturbanceMeter::begin() {
  delays_ns_ = is_long_ ? run_delay_ns() : std::nullopt;
  begin_ = read();
}

bool DisturbanceMeter::end() {
  if (!device_.uses_host_memory()) return false;  // the host only waits for the device
  Counters now = read();
  const int64_t wall_ns = now.wall_ns - begin_.wall_ns;
  is_long_ = wall_ns >= kLongNs;
  if (now.stalls != begin_.stalls) return true;
  if (now.switches != begin_.switches) {
    std::optional<int64_t> delays_ns = is_long_ && delays_ns_ ? run_delay_ns() : std::nullopt;
    if (!delays_ns || *delays_ns - *delays_ns_ > missing_max_ns(wall_ns)) return true;
  }
  // A thread that waits for others uses no processor time of its own.
  if (now.waits != begin_.waits) return false;
  return wall_ns - (now.processor_ns - begin_.processor_ns) > missing_max_ns(wall_ns);
}

}  // namespace worker
