// The process's ZeroMQ context, and a poller that waits for its sockets and other descriptors.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/result.h"

namespace common {

class RouterSocket;
class DealerSocket;

// The background threads that move messages. Sockets of one context reach each other by inproc.
// Thread-safe. Sockets keep what they need of it alive.
class WireContext {
 public:
  explicit WireContext(int io_threads = 1);
  // For common/wire only: ZeroMQ's handle, kept alive by whoever holds the pointer.
  const std::shared_ptr<void>& handle() const { return handle_; }

 private:
  std::shared_ptr<void> handle_;
};

// Waits for several sockets and descriptors. Watched sockets may be moved but must outlive the
// poller or its clear(). Not thread-safe.
class Poller {
 public:
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Each returns an index for ready(). Sockets and descriptors are watched for input.
  size_t watch(const RouterSocket& socket);
  size_t watch(const DealerSocket& socket);
  size_t watch_fd(int fd);
  void clear();

  // Waits at most `timeout_ms` of monotonic time (negative: for ever) and returns how many are
  // ready. Returns 0 early when a signal arrives, so that the caller can look at its flags.
  Result<size_t> wait(int timeout_ms);
  bool ready(size_t index) const;

 private:
  struct Items;
  std::unique_ptr<Items> items_;
};

// Wakes a poller from another thread or a signal handler: watch fd(), call wake() there, clear()
// here.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  int fd() const { return fd_; }
  void wake();
  void clear();

 private:
  int fd_ = -1;
};

}  // namespace common
