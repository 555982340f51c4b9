// The clients that have said hello, so that a client whose coordinator restarted says it again.
#pragma once

#include <string>
#include <unordered_map>

#include "common/wire/messages.h"

namespace coordinator::service {

struct ClientSession {
  std::string name;
  std::string build;
  int64_t last_seen_ns = 0;
};

// ROUTER sockets do not tell when a peer goes, so silent sessions are dropped instead: such a
// client is asked for its hello again. Not thread-safe.
class Clients {
 public:
  explicit Clients(size_t clients_max) : clients_max_(clients_max) {}

  void hello(const std::string& peer, const common::ClientHello& hello, int64_t now_ns);
  // Whether the peer has said hello; counts as a sign of life.
  bool touch(const std::string& peer, int64_t now_ns);
  void forget(const std::string& peer) { sessions_.erase(peer); }
  size_t count() const { return sessions_.size(); }

 private:
  void make_room();
  const size_t clients_max_;
  std::unordered_map<std::string, ClientSession> sessions_;
};

}  // namespace coordinator::service
