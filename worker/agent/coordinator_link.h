// A worker's connection to its coordinator: hello until it is welcomed, messages that wait for a
// welcome or for room, and when the next heartbeat is due.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "common/wire/socket.h"

namespace worker {

// Single-threaded. Times are those of the clock that it is given, in nanoseconds.
class CoordinatorLink {
 public:
  struct Periods {
    int64_t hello_ms = 1'000;      // between hellos that nobody answers
    int64_t heartbeat_ms = 1'000;  // unless the coordinator says otherwise
  };

  // `hello` says who the worker is; its build and its protocol are filled in.
  CoordinatorLink(common::DealerSocket socket, common::WorkerHello hello, Periods periods,
                  const common::Clock& clock);

  common::DealerSocket& socket() { return socket_; }

  // The packets that have come, a bounded number; valid until the next call.
  std::span<const common::Result<common::Packet>> receive();
  // Sent in order, once there is a welcome.
  void queue(common::Message message, common::SharedBytes blob = {});
  void flush();
  bool has_unsent() const { return !outbox_.empty(); }

  bool is_welcomed() const { return is_welcomed_; }
  // Whether the coordinator may know of this worker since a hello a moment ago and has not
  // answered.
  bool expects_welcome() const;
  // Whether an earlier welcome came from another coordinator than `id`.
  bool is_other_than(const std::string& id) const;
  // False when the coordinator wants to speak a protocol that this side does not.
  bool join(const common::Welcome& welcome);
  // The coordinator does not know this connection: says hello again.
  void forget_welcome();

  // Follows the connection: a new one needs a new welcome. Says hello when that is due.
  void keep_in_touch();
  // True once a period, while welcomed.
  bool takes_heartbeat();
  // When to call keep_in_touch() and takes_heartbeat() next, at the latest.
  int64_t next_ns() const;

 private:
  void say_hello();

  common::DealerSocket socket_;
  common::WorkerHello hello_;
  Periods periods_;
  const common::Clock& clock_;
  std::deque<common::Packet> outbox_;  // waits for a welcome, or for room
  std::vector<common::Result<common::Packet>> packets_;
  uint64_t connections_seen_ = 0;
  bool is_welcomed_ = false;
  std::string coordinator_id_;
  int64_t next_hello_ns_ = 0;
  int64_t said_hello_ns_ = 0;  // on this connection; 0: not yet
  int64_t next_heartbeat_ns_ = 0;
};

}  // namespace worker
