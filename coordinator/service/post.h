// Sends messages to peers and keeps them in order while a peer's queue is full.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "common/wire/socket.h"

namespace coordinator::service {

class Post {
 public:
  explicit Post(common::RouterSocket& router) : router_(router) {}

  // False when the peer's connection is gone, or it has left too much unread.
  bool send(const std::string& peer, const common::Message& message,
            const common::SharedBytes& blob = {});
  // Answers a message that had no effect. The text says what, where and what to do.
  void refuse(const std::string& peer, common::Code code, std::string text);
  // Tries again what waits; to be called on every turn of the loop.
  void flush();
  bool has_backlog() const { return !backlog_.empty(); }

 private:
  static constexpr size_t kBacklogMax = 4096;  // messages for one peer
  common::RouterSocket& router_;
  std::unordered_map<std::string, std::deque<common::Packet>> backlog_;
};

}  // namespace coordinator::service
