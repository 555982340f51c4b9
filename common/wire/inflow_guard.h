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
#include <mutex>
#include <thread>
#include <unordered_map>

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
  // How often all connections have been looked at.
  uint64_t rounds() const { return rounds_; }

 private:
  struct Connection {
    uint64_t socket = 0;  // its inode: a descriptor may have become another's
    uint64_t taken = 0;
    int64_t since_ns = 0;
  };
  void run();
  void look();
  uint64_t unread(int fd, Connection& connection, int64_t now_ns) const;
  void end(int fd, const Connection& connection, uint64_t unread_bytes);

  const InflowLimits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<int, Connection> connections_;
  bool stopping_ = false;
  std::atomic<uint64_t> ended_count_{0};
  std::atomic<uint64_t> rounds_{0};
  std::thread thread_;
};

}  // namespace common
