// Makes shards that were taken ready to be served, each apart from the others: one whose fence is
// refused meanwhile is dropped, one for which the engine does not answer is tried again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/shard/fence.h"
#include "coordinator/service/loop/background.h"
#include "coordinator/service/shards/sharding.h"
#include "coordinator/service/sharing/peer_plans.h"

namespace coordinator::service {

// Not thread-safe; borrows what it is given. A shard is ready once this coordinator knows what was
// revoked before, and the faster one of each plan that its store and the engine have is in both.
class ShardPreparation {
 public:
  // `apply`: runs where deliver() is called, before a shard is ready that was prepared by the news.
  using Apply = std::function<void(const PeerPlans::News&)>;
  ShardPreparation(Sharding& sharding, PeerPlans& peers, const common::Clock& clock, Apply apply);

  // A plan of the shard is not in the engine, which did not answer: while the shard is held, its
  // plans are compared again.
  void again(uint32_t shard);
  // To be called on every turn of the loop.
  void turn(int64_t now_ns);
  // Shards that have become ready, each once, with the jobs that their holder before left.
  struct Ready {
    common::Fence fence;
    std::vector<ShardJournal> journals;
  };
  std::vector<Ready> take_ready();
  // Whether some plans of a shard may be missing in the engine.
  bool is_behind(uint32_t shard) const {
    return again_.contains(shard) || comparing_.contains(shard);
  }

  // Readable when deliver() has something to do.
  int fd() const { return thread_.fd(); }
  void deliver() { thread_.deliver(); }

 private:
  void drop_lost();
  void work();

  ShardKeeper& keeper_;
  ShardJournals& journals_;
  PeerPlans& peers_;
  const common::Clock& clock_;
  const Apply apply_;
  std::map<uint32_t, common::Fence> raised_;  // not ready
  std::set<uint32_t> again_, comparing_;      // ready, but some plans may be missing in the engine
  std::vector<Ready> ready_;
  bool is_working_ = false;
  int64_t next_ns_ = 0;
  Background thread_{1};  // last, so that its thread ends first
};

}  // namespace coordinator::service
