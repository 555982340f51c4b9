#include "common/base/clock.h"

#include <ctime>

namespace common {
namespace {
int64_t read_clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
}  // namespace

int64_t SteadyClock::now_ns() const { return read_clock(CLOCK_MONOTONIC); }
int64_t wall_clock_ns() { return read_clock(CLOCK_REALTIME); }

}  // namespace common
