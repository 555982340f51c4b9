// Makes shards that were taken ready to be served, each apart from the others: one whose fence is
// refused meanwhile is dropped, one for which the engine does not answer is tried again. Then
// brings the plans of this coordinator's store and the engine's together, behind the shards' backs.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/shard/fence.h"
#include "coordinator/service/loop/background.h"
#include "coordinator/service/shards/sharding.h"
#include "coordinator/service/sharing/peer_plans.h"

namespace coordinator::service {

// Not thread-safe; borrows what it is given. A shard is ready once this coordinator knows what was
// revoked before and which jobs go on, however many plans it has. Then its plans are compared in
// the background, some at a time. Until that has ended, a request for one of them compares it
// first.
class ShardPreparation {
 public:
  // `apply`: runs where deliver() is called, before a shard is ready that was prepared by the news.
  using Apply = std::function<void(const PeerPlans::News&)>;
  ShardPreparation(Sharding& sharding, PeerPlans& peers, const common::Clock& clock, Apply apply);

  // A plan is not in the engine, which did not answer: while its shard is held, it is offered
  // again.
  void again(const PlanPlace& place);
  // To be called on every turn of the loop.
  void turn(int64_t now_ns);
  // Shards that have become ready, each once, with the jobs that their holder before left.
  struct Ready {
    common::Fence fence;
    std::vector<ShardJournal> journals;
  };
  std::vector<Ready> take_ready();
  // Whether a plan of the shard waits to be offered again.
  bool is_behind(uint32_t shard) const;
  // Whether the engine may have a faster plan of the shard than this coordinator's store.
  bool is_comparing(uint32_t shard) const {
    return comparison_.waiting[shard] || comparison_.under_way[shard];
  }

  // Readable when deliver() has something to do.
  int fd() const { return thread_.fd(); }
  void deliver() { thread_.deliver(); }

 private:
  // One pass over the store's plans for all shards that wait when it begins.
  struct Comparison {
    PeerPlans::Shards waiting, under_way;
    std::optional<common::Digest> last;  // place that was compared last
    int64_t next_ns = 0;
  };
  void drop_lost();
  void prepare();
  void offer_again();
  void compare();

  static constexpr size_t kUnofferedMax = 4'096;
  static constexpr size_t kOffersAtOnce = 64;
  ShardKeeper& keeper_;
  ShardJournals& journals_;
  PeerPlans& peers_;
  const common::Clock& clock_;
  const Apply apply_;
  std::map<uint32_t, common::Fence> raised_;       // not ready
  std::map<common::Digest, PlanPlace> unoffered_;  // by their digests
  Comparison comparison_;
  std::vector<Ready> ready_;
  bool is_working_ = false;
  int64_t prepare_ns_ = 0, offer_ns_ = 0;  // not before
  Background thread_{1};                   // last, so that its thread ends first
};

}  // namespace coordinator::service
