#include "coordinator/service/plans/plan_watches.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace coordinator::service {

using common::Digest;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;

Digest id_of(const std::string& tenant, const Digest& key, const std::string& machine) {
  return common::Hasher().digest(common::place_of(tenant, key)).text(machine).finish();
}

}  // namespace

void PlanWatches::watch(const std::string& peer, const std::string& tenant,
                        const common::PullPlan& pull, const Digest& told) {
  if (peers_.size() >= peers_max_ && !peers_.contains(peer)) make_room();
  Peer& watcher = peers_[peer];
  watcher.asked_ns = clock_.now_ns();
  Digest id = id_of(tenant, pull.plan_key, pull.machine);
  if (watcher.places.size() >= kPlacesMax && !watcher.places.contains(id)) return;
  watcher.places.insert(id);
  auto [found, is_new] = places_.try_emplace(id);
  Place& place = found->second;
  if (is_new) {
    place.tenant = tenant;
    place.key = pull.plan_key;
    place.machine = pull.machine;
    place.told = told;
    by_key_[common::place_of(tenant, pull.plan_key)].insert(id);
  }
  place.peers.insert(peer);
}

void PlanWatches::forget(const std::string& peer) {
  auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  for (const Digest& id : std::exchange(found->second.places, {})) leave(id, peer);
  peers_.erase(found);
}

void PlanWatches::leave(const Digest& id, const std::string& peer) {
  auto found = places_.find(id);
  if (found == places_.end()) return;
  Place& place = found->second;
  place.peers.erase(peer);
  if (!place.peers.empty()) return;
  auto key = by_key_.find(common::place_of(place.tenant, place.key));
  if (key != by_key_.end() && key->second.erase(id) != 0 && key->second.empty()) by_key_.erase(key);
  due_.erase(id);
  places_.erase(found);
}

// Forgets the half that asked longest ago; clients ask again now and then.
void PlanWatches::make_room() {
  std::vector<int64_t> asked;
  for (const auto& [name, peer] : peers_) asked.push_back(peer.asked_ns);
  if (asked.empty()) return;
  auto middle = asked.begin() + static_cast<std::ptrdiff_t>(asked.size() / 2);
  std::nth_element(asked.begin(), middle, asked.end());
  std::vector<std::string> old;
  for (const auto& [name, peer] : peers_) {
    if (peer.asked_ns <= *middle) old.push_back(name);
  }
  for (const std::string& name : old) forget(name);
}

void PlanWatches::turn() {
  take_changes();
  int64_t now_ns = clock_.now_ns();
  for (auto it = due_.begin(); it != due_.end();) {
    auto found = places_.find(*it);
    bool is_early =
        found != places_.end() &&
        (found->second.is_sending ||
         (found->second.last_ns != 0 && now_ns - found->second.last_ns < news_ms_ * kNsPerMs));
    if (is_early) {
      ++it;
      continue;
    }
    if (found != places_.end()) begin_sending(*it, found->second, now_ns);
    it = due_.erase(it);
  }
  send_some();
}

void PlanWatches::take_changes() {
  for (const Digest& changed : plans_.take_changes()) {
    auto found = by_key_.find(changed);
    if (found != by_key_.end()) due_.insert(found->second.begin(), found->second.end());
  }
}

void PlanWatches::begin_sending(const Digest& id, Place& place, int64_t now_ns) {
  auto ready = plans_.find(place.tenant, place.key, place.machine, cache::Lookup::kInspect);
  if (ready.ok() && !*ready) ready = plans_.find_neighbour(place.tenant, place.key, place.machine);
  if (!ready.ok()) return common::log_warning(ready.error().message);
  if (!*ready || (*ready)->plan == place.told) return;
  const ReadyPlan& plan = **ready;
  common::PlanReady facts = plan.message(0);
  place.told = plan.plan;
  place.last_ns = now_ns;
  place.is_sending = true;
  ++fan_outs_;
  common::PlanNews news{place.key,      place.machine, plan.plan,
                        facts.standing, facts.best_ns, facts.baseline_ns};
  sending_.push_back({id, std::move(news), {place.peers.begin(), place.peers.end()}, 0});
}

void PlanWatches::send_some() {
  size_t sent = 0;
  while (!sending_.empty() && sent < kSentAtOnce) {
    Sending& now = sending_.front();
    for (; now.next < now.peers.size() && sent < kSentAtOnce; ++now.next, ++sent) {
      const std::string& peer = now.peers[now.next];
      // Who does not know the message, or is gone, watches no more.
      if (!outbox_.send(peer, now.news)) forget(peer);
    }
    if (now.next < now.peers.size()) return;
    auto place = places_.find(now.place);
    if (place != places_.end()) place->second.is_sending = false;
    sending_.pop_front();
  }
}

}  // namespace coordinator::service
