// The event loop's side of shards: ends jobs of those that are lost, and hands shards over.
#pragma once

#include <bitset>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/incarnation.h"
#include "common/base/result.h"
#include "common/base/signing.h"
#include "common/shard/shard.h"
#include "common/wire/security.h"
#include "coordinator/service/jobs/job_table.h"
#include "coordinator/service/loop/commits.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/loop/outbox.h"
#include "coordinator/service/shards/sharding.h"
#include "coordinator/service/sharing/shared_tier.h"

namespace coordinator::service {

// Not thread-safe. Where one coordinator serves everything, all of it does nothing.
class ShardTurns {
 public:
  ShardTurns(const ServiceOptions& options, const SharedTierSetup& shared,
             const common::PublicKey& farm_key, const common::Incarnation& incarnation,
             const common::Clock& clock);
  ~ShardTurns();
  ShardTurns(const ShardTurns&) = delete;
  ShardTurns& operator=(const ShardTurns&) = delete;
  // kInvalidInput when shards have no store to lie in, or clients no way here.
  static common::Status check(const ServiceOptions& options);

  // Null where one coordinator serves everything.
  Sharding* sharding() const { return sharding_.get(); }
  // Begins to take shards. `endpoint`: as it was bound. `commits`: what of the jobs is written
  // there goes to the engine, too.
  void start(const ServiceOptions& options, const std::string& endpoint,
             const std::optional<common::KeyPair>& keys, Commits& commits);
  // To be called on every turn of the loop. A shard that is lost, or to be handed over, is worked
  // for no more; what was found for it goes to the engine first.
  void turn(JobTable& jobs, SharedTier& shared);
  // Hands everything over, for a short while.
  void leave(JobTable& jobs, SharedTier& shared, Commits& commits, Outbox& outbox);

 private:
  const common::Clock& clock_;
  std::unique_ptr<Sharding> sharding_;
  Commits* commits_ = nullptr;               // that is observed
  std::bitset<common::kShardCount> served_;  // as of the last turn
};

}  // namespace coordinator::service
