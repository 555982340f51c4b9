#include "coordinator/service/post.h"

#include <utility>

namespace coordinator::service {

using common::SendOutcome;

bool Post::send(const std::string& peer, const common::Message& message,
                const common::SharedBytes& blob) {
  auto waiting = backlog_.find(peer);
  if (waiting == backlog_.end()) {
    SendOutcome outcome = router_.send(peer, message, blob);
    if (outcome != SendOutcome::kFull) return outcome == SendOutcome::kSent;
    waiting = backlog_.try_emplace(peer).first;
  }
  if (waiting->second.size() >= kBacklogMax) return false;
  waiting->second.push_back({message, blob});
  return true;
}

void Post::refuse(const std::string& peer, common::Code code, std::string text) {
  send(peer, common::Refused{code, std::move(text)});
}

void Post::flush() {
  for (auto it = backlog_.begin(); it != backlog_.end();) {
    auto& [peer, packets] = *it;
    SendOutcome outcome = SendOutcome::kSent;
    while (!packets.empty() && outcome == SendOutcome::kSent) {
      outcome = router_.send(peer, packets.front().message, packets.front().blob);
      if (outcome == SendOutcome::kSent) packets.pop_front();
    }
    bool over = packets.empty() || outcome == SendOutcome::kPeerGone;
    it = over ? backlog_.erase(it) : std::next(it);
  }
}

}  // namespace coordinator::service
