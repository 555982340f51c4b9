#include "coordinator/service/loop/clients.h"

#include <algorithm>
#include <vector>

namespace coordinator::service {

void Clients::hello(const std::string& peer, const common::ClientHello& hello, int64_t now_ns) {
  if (sessions_.count(peer) == 0 && sessions_.size() >= clients_max_) make_room();
  sessions_[peer] = {hello.client_id, hello.build, now_ns, now_ns};
}

bool Clients::touch(const std::string& peer, int64_t now_ns) {
  auto found = sessions_.find(peer);
  if (found == sessions_.end()) return false;
  found->second.last_seen_ns = found->second.last_reached_ns = now_ns;
  return true;
}

void Clients::probe(int64_t now_ns, const std::function<bool(const std::string&)>& reaches) {
  if (now_ns < next_probe_ns_) return;
  next_probe_ns_ = now_ns + kProbeNs / 2;
  size_t left = kProbesMax;
  for (auto it = sessions_.begin(); it != sessions_.end() && left > 0;) {
    bool is_silent = now_ns - it->second.last_reached_ns >= kProbeNs;
    if (is_silent) --left;
    if (is_silent && !reaches(it->first)) {
      it = sessions_.erase(it);
      continue;
    }
    if (is_silent) it->second.last_reached_ns = now_ns;
    ++it;
  }
}

// Forgets the half that has been silent longest.
void Clients::make_room() {
  std::vector<int64_t> seen;
  for (const auto& [peer, session] : sessions_) seen.push_back(session.last_seen_ns);
  if (seen.empty()) return;
  auto middle = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
  std::nth_element(seen.begin(), middle, seen.end());
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.last_seen_ns <= *middle; });
}

}  // namespace coordinator::service
