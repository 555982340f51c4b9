// Clients that are told when the plan under a key is another one.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/service/loop/outbox.h"
#include "coordinator/service/plans/plan_repository.h"

namespace coordinator::service {

// However many peers watch a key, a change of its plan is looked up once, and sent to each peer at
// most once in `news_ms`, the last change always. Peers whose connections are gone are noticed when
// something is sent to them. Not thread-safe.
class PlanWatches {
 public:
  PlanWatches(PlanRepository& plans, Outbox& outbox, const common::Clock& clock, int64_t news_ms,
              size_t peers_max)
      : plans_(plans), outbox_(outbox), clock_(clock), news_ms_(news_ms), peers_max_(peers_max) {}

  // `told`: the plan that the peer gets with the answer to its pull; zero: none.
  void watch(const std::string& peer, const std::string& tenant, const common::PullPlan& pull,
             const common::Digest& told);
  void forget(const std::string& peer);
  // Sends what is due; to be called on every turn of the loop.
  void turn();
  // Whether news wait to be sent.
  bool is_busy() const { return !due_.empty() || !sending_.empty(); }
  size_t peers() const { return peers_.size(); }
  // News that were looked up to be sent, each to all who watch its key.
  uint64_t fan_outs() const { return fan_outs_; }

 private:
  // Of one tenant, key and machine class.
  struct Place {
    std::string tenant;
    common::Digest key;
    std::string machine;
    std::unordered_set<std::string> peers;
    common::Digest told;  // what all peers know of
    int64_t last_ns = 0;  // when news were last sent; 0: never
    bool is_sending = false;
  };
  struct Peer {
    std::unordered_set<common::Digest> places;
    int64_t asked_ns = 0;
  };
  // News on their way to the peers that watched when they were looked up.
  struct Sending {
    common::Digest place;
    common::PlanNews news;
    std::vector<std::string> peers;
    size_t next = 0;
  };
  static constexpr size_t kPlacesMax = 4'096;   // of one peer
  static constexpr size_t kSentAtOnce = 1'024;  // in one turn, so that other peers are served
  void take_changes();
  void begin_sending(const common::Digest& id, Place& place, int64_t now_ns);
  void send_some();
  void make_room();
  void leave(const common::Digest& id, const std::string& peer);

  PlanRepository& plans_;
  Outbox& outbox_;
  const common::Clock& clock_;
  const int64_t news_ms_;
  const size_t peers_max_;
  std::unordered_map<common::Digest, Place> places_;
  // The places of a tenant's key, whatever the machine class.
  std::unordered_map<common::Digest, std::unordered_set<common::Digest>> by_key_;
  std::unordered_map<std::string, Peer> peers_;
  std::unordered_set<common::Digest> due_;  // places whose plan may have changed
  std::deque<Sending> sending_;
  uint64_t fan_outs_ = 0;
};

}  // namespace coordinator::service
