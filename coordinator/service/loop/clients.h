// The clients that have said hello, so that a client whose coordinator restarted says it again.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "common/wire/messages.h"

namespace coordinator::service {

struct ClientSession {
  std::string name;
  std::string build;
  int64_t last_seen_ns = 0;
  int64_t last_reached_ns = 0;  // by a message from the coordinator or of the client's own
};

// ROUTER sockets do not tell when a peer goes, but refuse messages for one that has gone: silent
// clients are sent one now and then. A session that is dropped although its client is there costs
// that client another hello. Not thread-safe.
class Clients {
 public:
  explicit Clients(size_t clients_max) : clients_max_(clients_max) {}

  void hello(const std::string& peer, const common::ClientHello& hello, int64_t now_ns);
  // Whether the peer has said hello; counts as a sign of life.
  bool touch(const std::string& peer, int64_t now_ns);
  // `reaches` sends a message that clients pass over, and is false where the peer has gone. It is
  // called for at most kProbesMax clients that nothing has come from or gone to for kProbeNs, every
  // kProbeNs / 2; those that it does not reach are forgotten.
  void probe(int64_t now_ns, const std::function<bool(const std::string&)>& reaches);
  static constexpr int64_t kProbeNs = 5'000'000'000;
  static constexpr size_t kProbesMax = 1'024;
  void forget(const std::string& peer) { sessions_.erase(peer); }
  size_t count() const { return sessions_.size(); }

 private:
  void make_room();
  const size_t clients_max_;
  int64_t next_probe_ns_ = 0;
  std::unordered_map<std::string, ClientSession> sessions_;
};

}  // namespace coordinator::service
