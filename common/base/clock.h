// Time as an injected dependency, so that schedulers and leases can be driven by tests.
#pragma once

#include <cstdint>

namespace common {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds from an arbitrary origin; never goes back.
  virtual int64_t now_ns() const = 0;
};

// CLOCK_MONOTONIC.
class SteadyClock final : public Clock {
 public:
  int64_t now_ns() const override;
};

// Nanoseconds since 1970, for records that people read. Never used for deadlines.
int64_t wall_clock_ns();

}  // namespace common
