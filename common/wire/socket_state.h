// Inside common/wire: what the two kinds of sockets hold, for their own code and the poller.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/wire/inflow_guard.h"
#include "common/wire/socket.h"
#include "common/wire/zmq_support.h"

namespace common {

// Bytes that wait in ZeroMQ's queues. Its threads release them.
struct QueuedBytes {
  std::atomic<size_t> peer{0};
  std::shared_ptr<std::atomic<size_t>> all;
};

// One frame on its way to a peer.
class QueuedFrame {
 public:
  QueuedFrame(std::shared_ptr<QueuedBytes> queue, Bytes envelope)
      : queue_(std::move(queue)), envelope_(std::move(envelope)) {
    count();
  }
  QueuedFrame(std::shared_ptr<QueuedBytes> queue, SharedBytes blob)
      : queue_(std::move(queue)), blob_(std::move(blob)) {
    count();
  }
  ~QueuedFrame() {
    queue_->peer -= bytes().size();
    *queue_->all -= bytes().size();
  }
  QueuedFrame(const QueuedFrame&) = delete;
  QueuedFrame& operator=(const QueuedFrame&) = delete;
  ByteView bytes() const { return blob_ ? blob_.bytes : ByteView(envelope_); }

 private:
  void count() {
    queue_->peer += bytes().size();
    *queue_->all += bytes().size();
  }
  std::shared_ptr<QueuedBytes> queue_;
  Bytes envelope_;
  SharedBytes blob_;
};

struct RouterSocket::State {
  State(std::shared_ptr<void> context, ConnectionCallback callback, InflowLimits limits)
      : inflow(limits),
        socket(std::move(context), ZMQ_ROUTER),
        monitor(socket, &inflow, std::move(callback)) {}
  InflowGuard inflow;
  std::shared_ptr<Authenticator> authenticator;
  std::shared_ptr<const Principal> local;  // set where security is off
  // By file descriptor, so that there are never more than the process may open. An entry may be of
  // a connection that has ended; dropping it then costs another peer a reconnection at worst.
  struct Connection {
    std::string peer;
    std::string key;
  };
  std::unordered_map<int, Connection> connections;
  void note(int fd, const std::string& peer, const std::string& key);
  // Null when `bytes` more must wait.
  std::shared_ptr<QueuedBytes> room_for(const std::string& peer, size_t bytes);

  ZmqSocket socket;
  ConnectionMonitor monitor;
  std::string endpoint;
  size_t peer_queue_bytes = 0;
  size_t queue_bytes = 0;
  std::shared_ptr<std::atomic<size_t>> queued = std::make_shared<std::atomic<size_t>>(0);
  std::unordered_map<std::string, std::shared_ptr<QueuedBytes>> queues;  // by peer
  size_t sweep_at = 1024;  // queues, of peers that are gone too
  ProtocolRange protocol;
  // In which peers wrote last, where it is not the highest.
  std::unordered_map<std::string, uint32_t> versions;
  void note_version(const std::string& peer, uint32_t version);
  uint32_t version_of(const std::string& peer) const;
};

struct DealerSocket::State {
  State(std::shared_ptr<void> context, ConnectionCallback callback)
      : socket(std::move(context), ZMQ_DEALER), monitor(socket, nullptr, std::move(callback)) {}
  // Handles connection events, and tries again where ZeroMQ has given up.
  void tend();
  ZmqSocket socket;
  ConnectionMonitor monitor;
  std::string endpoint;
  int64_t retry_at_ns = 0;  // 0: nothing to retry
  ProtocolRange protocol;
  uint32_t version = 0;  // in which it writes
};

}  // namespace common
