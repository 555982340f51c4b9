#include "worker/profile/disturbance.h"

#include <sys/resource.h>

#include <ctime>

#include "common/base/clock.h"

namespace worker {
namespace {

// Interrupts take some microseconds of an interval without a context switch.
constexpr int64_t kMissingNs = 20'000;
constexpr int64_t kMissingShare = 20;  // and a twentieth of the interval

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

void DisturbanceMeter::begin() { begin_ = read(); }

bool DisturbanceMeter::end() {
  if (!device_.uses_host_memory()) return false;  // the host only waits for the device
  Counters now = read();
  if (now.switches != begin_.switches || now.stalls != begin_.stalls) return true;
  // A thread that waits for others uses no processor time of its own.
  if (now.waits != begin_.waits) return false;
  int64_t wall_ns = now.wall_ns - begin_.wall_ns;
  int64_t missing_ns = wall_ns - (now.processor_ns - begin_.processor_ns);
  return missing_ns > kMissingNs + wall_ns / kMissingShare;
}

}  // namespace worker
