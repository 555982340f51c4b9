#include "coordinator/service/loop/outbox.h"

#include <utility>

#include "common/base/cat.h"

namespace coordinator::service {

using common::SendOutcome;

namespace {

size_t bytes_about(const common::Packet& packet) {
  return common::envelope_bytes_about(packet.message) + packet.blob.bytes.size();
}

}  // namespace

bool Outbox::send(const std::string& peer, const common::Message& message,
                  const common::SharedBytes& blob) {
  auto waiting = backlog_.find(peer);
  if (waiting == backlog_.end()) {
    SendOutcome outcome = router_.send(peer, message, blob);
    if (outcome != SendOutcome::kFull) return outcome == SendOutcome::kSent;
    waiting = backlog_.try_emplace(peer).first;
  }
  Backlog& backlog = waiting->second;
  common::Packet packet{message, blob};
  size_t bytes = bytes_about(packet);
  bool fits = backlog.packets.size() < kBacklogMax && backlog.bytes + bytes <= backlog_bytes_max_;
  if (!fits && !backlog.packets.empty()) {
    ++dropped_;
    return false;
  }
  backlog.bytes += bytes;
  backlog_bytes_ += bytes;
  backlog.packets.push_back(std::move(packet));
  return true;
}

void Outbox::refuse(const std::string& peer, common::Code code, std::string text) {
  send(peer, common::Refused{code, std::move(text)});
}

bool Outbox::turn_away(const std::string& peer) {
  auto waiting = backlog_.find(peer);
  if (waiting == backlog_.end()) return false;
  ++waiting->second.turned_away;
  return true;
}

void Outbox::flush() {
  for (auto it = backlog_.begin(); it != backlog_.end();) {
    auto& [peer, backlog] = *it;
    SendOutcome outcome = SendOutcome::kSent;
    while (!backlog.packets.empty() && outcome == SendOutcome::kSent) {
      common::Packet& next = backlog.packets.front();
      outcome = router_.send(peer, next.message, next.blob);
      if (outcome == SendOutcome::kNotKnown) outcome = SendOutcome::kSent;  // it misses nothing
      if (outcome != SendOutcome::kSent) break;
      backlog.bytes -= bytes_about(next);
      backlog_bytes_ -= bytes_about(next);
      backlog.packets.pop_front();
    }
    if (outcome == SendOutcome::kSent && backlog.turned_away > 0) {
      outcome = router_.send(
          peer, common::Refused{common::Code::kUnavailable,
                                common::cat(backlog.turned_away,
                                            " requests were not answered, because this connection "
                                            "had left answers unread; say hello and ask again "
                                            "now, and read what comes")});
      if (outcome == SendOutcome::kSent) backlog.turned_away = 0;
    }
    bool over = outcome != SendOutcome::kFull;
    if (over) backlog_bytes_ -= backlog.bytes;
    it = over ? backlog_.erase(it) : std::next(it);
  }
}

}  // namespace coordinator::service
