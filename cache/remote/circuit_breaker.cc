#include "cache/remote/circuit_breaker.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Error;
using common::Status;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

Status CircuitBreaker::admit(int64_t limit_ms) {
  std::lock_guard lock(mutex_);
  if (!health_.trouble.empty()) {
    int64_t now = common::SteadyClock().now_ns();
    if (now < retry_ns_) return common::unavailable(health_.trouble);
    retry_ns_ = now + limit_ms * kNsPerMs;
  }
  ++health_.questions;
  return {};
}

Error CircuitBreaker::failed(Error error) {
  std::lock_guard lock(mutex_);
  if (health_.trouble != error.message) {
    common::log_warning(cat(name_, " is not used: ", error.message));
  }
  bool is_new = health_.trouble.empty();
  backoff_ms_ = is_new ? times_.first_ms : std::min(2 * backoff_ms_, times_.last_ms);
  retry_ns_ = common::SteadyClock().now_ns() + backoff_ms_ * kNsPerMs;
  health_.trouble = error.message;
  ++health_.failures;
  return error;
}

void CircuitBreaker::succeeded() {
  std::lock_guard lock(mutex_);
  if (health_.trouble.empty()) return;
  health_.trouble.clear();
  common::log_info(cat(name_, " is used again"));
}

void CircuitBreaker::count_bytes(uint64_t in, uint64_t out) {
  std::lock_guard lock(mutex_);
  health_.bytes_in += in;
  health_.bytes_out += out;
}

Status CircuitBreaker::note_write(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (why != health_.refusing) {
    health_.refusing = why;
    why.empty() ? common::log_info(cat(name_, " takes ", things_, " again"))
                : common::log_warning(cat(name_, " takes no ", things_, ": ", why));
  }
  if (why.empty()) return {};
  return common::unavailable(cat("it takes no ", things_, ": ", why));
}

bool CircuitBreaker::is_open() const {
  std::lock_guard lock(mutex_);
  return !health_.trouble.empty() && common::SteadyClock().now_ns() < retry_ns_;
}

RemoteHealth CircuitBreaker::health() const {
  std::lock_guard lock(mutex_);
  return health_;
}

}  // namespace cache
