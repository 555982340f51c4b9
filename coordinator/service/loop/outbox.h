// Outbox. Sends messages in order per peer and buffers them while a peer's queue is full; the
// buffer is bounded per peer and in total.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "common/wire/socket.h"

namespace coordinator::service {

class Outbox {
 public:
  // `backlog_bytes`: of messages for one peer that its queue did not take.
  Outbox(common::RouterSocket& router, size_t backlog_bytes)
      : router_(router), backlog_bytes_max_(backlog_bytes) {}

  // False when the peer's connection is gone, or it has left too much unread.
  bool send(const std::string& peer, const common::Message& message,
            const common::SharedBytes& blob = {});
  // Answers a message that had no effect. The text says what, where and what to do.
  void refuse(const std::string& peer, common::Code code, std::string text);
  // Whether the peer has left so much unread that its requests should not be answered: a refusal
  // goes out, once, when it reads again.
  bool turn_away(const std::string& peer);
  // Tries again what waits; to be called on every turn of the loop.
  void flush();
  bool has_backlog() const { return !backlog_.empty(); }
  // Bytes that wait for peers, here and in their queues.
  size_t bytes() const { return router_.queued_bytes() + backlog_bytes_; }
  // Messages that were dropped because a peer had left too much unread.
  uint64_t dropped() const { return dropped_; }

 private:
  struct Backlog {
    std::deque<common::Packet> packets;
    size_t bytes = 0;
    uint64_t turned_away = 0;  // requests
  };
  static constexpr size_t kBacklogMax = 4096;  // messages for one peer
  common::RouterSocket& router_;
  const size_t backlog_bytes_max_;
  std::unordered_map<std::string, Backlog> backlog_;
  size_t backlog_bytes_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace coordinator::service
