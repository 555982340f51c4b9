// Inside common/wire: bounds the bytes that peers have sent and nobody has taken yet.
//
// ZeroMQ bounds what waits for a reader by messages alone, and a message that never ends not at
// all: its frames pile up and are shown to no one. What it holds can be told from outside: what the
// kernel has received on a connection, less what waits in the kernel still and what was taken.
// A connection that is beyond its bound is ended, and ZeroMQ gives its memory back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace common {

struct InflowLimits {
  size_t peer_bytes = 0;  // of one connection
  size_t bytes = 0;       // of all: beyond them those with the most end
};

// Watches TCP connections from a thread of its own, so that bounds hold while the socket's thread
// is busy; others (ipc, inproc) it leaves alone. All functions are thread-safe.
class InflowGuard {
 public:
  explicit InflowGuard(InflowLimits limits);
  ~InflowGuard();
  InflowGuard(const InflowGuard&) = delete;
  InflowGuard& operator=(const InflowGuard&) = delete;

  // Connections by their descriptors, from ZeroMQ's events.
  void accepted(int fd);
  void ended(int fd);
  // Bytes of a packet, as they were on the wire, that came by this descriptor.
  void taken(int fd, uint64_t wire_bytes);
  // Connections that were ended here.
  uint64_t ended_count() const { return ended_count_; }

 private:
  struct Connection {
    uint64_t socket = 0;  // its inode: a descriptor may have become another's
    uint64_t taken = 0;
    uint64_t unread = 0;  // when it was last looked at
    int64_t since_ns = 0;
  };
  using Connections = std::map<int, Connection>;  // by descriptor
  void run();
  void look();
  std::vector<Connections::iterator> next();
  static uint64_t unread(int fd, Connection& connection, int64_t now_ns);
  void end(Connections::iterator connection);

  const InflowLimits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Connections connections_;
  int next_quiet_ = 0;  // the descriptor at which the next look begins
  bool stopping_ = false;
  std::atomic<uint64_t> ended_count_{0};
  std::thread thread_;
};

}  // namespace common
