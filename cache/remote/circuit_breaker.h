// A circuit breaker: a server that is away, slow or refuses costs its callers at most one limit,
// once; then it is left alone for a while, which doubles as long as it does not come back.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "common/base/result.h"

namespace cache {

struct RemoteHealth {
  std::string trouble;   // why the server is left alone; empty while it is used
  std::string refusing;  // why it takes nothing new, such as that it is full; empty while it does
  uint64_t questions = 0;
  uint64_t failures = 0;  // of questions that were asked
  uint64_t bytes_in = 0, bytes_out = 0;
};

struct RetryTimes {
  int64_t first_ms = 250;
  int64_t last_ms = 30'000;
};

// Thread-safe.
class CircuitBreaker {
 public:
  // `name`: of the server, as the log calls it; `things`: what it takes.
  CircuitBreaker(std::string name, std::string things, RetryTimes times)
      : name_(std::move(name)), things_(std::move(things)), times_(times) {}

  // Before each question: kUnavailable while the server is left alone. While there is trouble one
  // caller tries at a time, for `limit_ms` at most, and the others know at once.
  common::Status admit(int64_t limit_ms);
  // After it, one of the two; failed() returns the error.
  common::Error failed(common::Error error);
  void succeeded();
  void count_bytes(uint64_t in, uint64_t out);
  // What the server says of a write, though it answers questions; empty: it has taken it.
  // kUnavailable where it has not.
  common::Status note_write(const std::string& why);

  // Whether a question would be refused unasked.
  bool is_open() const;
  RemoteHealth health() const;

 private:
  const std::string name_, things_;
  const RetryTimes times_;
  mutable std::mutex mutex_;
  RemoteHealth health_;
  int64_t retry_ns_ = 0;    // while there is trouble: when somebody may try again
  int64_t backoff_ms_ = 0;  // that led to it
};

}  // namespace cache
