// Inside common/wire: what the two kinds of sockets hold, for their own code and the poller.
#pragma once

#include <string>
#include <unordered_map>

#include "common/wire/socket.h"
#include "common/wire/zmq_support.h"

namespace common {

struct RouterSocket::State {
  State(std::shared_ptr<void> context, ConnectionCallback callback)
      : socket(std::move(context), ZMQ_ROUTER), monitor(socket, true, std::move(callback)) {}
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
  ZmqSocket socket;
  ConnectionMonitor monitor;
  std::string endpoint;
};

struct DealerSocket::State {
  State(std::shared_ptr<void> context, ConnectionCallback callback)
      : socket(std::move(context), ZMQ_DEALER), monitor(socket, false, std::move(callback)) {}
  // Handles connection events, and tries again where ZeroMQ has given up.
  void tend();
  ZmqSocket socket;
  ConnectionMonitor monitor;
  std::string endpoint;
  int64_t retry_at_ns = 0;  // 0: nothing to retry
};

}  // namespace common
