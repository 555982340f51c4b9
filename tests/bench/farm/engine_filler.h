// Plans in an engine's shards, written as a coordinator writes them: a plan's objects where they
// are not there (RemoteStore::put_objects), then the plan under its shard's fence
// (ShardEngine::write).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/engine/engine_leases.h"
#include "cache/engine/remote_engine.h"
#include "cache/remote/remote_store.h"
#include "common/base/digest.h"
#include "common/base/signing.h"
#include "common/plan/plan.h"
#include "common/shard/shard.h"

namespace bench {

// The store is borrowed. Not thread-safe; throws where the engine refuses.
class EngineFiller {
 public:
  // Takes the leases of all shards of this farm, also those that another coordinator still holds.
  EngineFiller(cache::RemoteStore& store, const std::string& space, size_t plan_bytes);

  // Plans `from` to `plans` - 1: bytes that are no plan, each with a small object of its own. As
  // many are written by one script as it takes, in place of one at a time.
  void fill(int64_t from, int64_t plans);
  // Where fill() goes on after it has been cut off.
  int64_t filled();
  void write_one(int64_t plan);
  // Plans that a coordinator believes, each with two objects that all have.
  std::vector<common::PlanKey> add_signed(int count, const common::SigningKey& key);
  // Leaves the shards to the next holder, as a coordinator does that ends.
  void leave();

  static common::Digest name_of(int64_t plan);
  static uint32_t shard_of(int64_t plan) {
    return static_cast<uint32_t>(plan % common::kShardCount);
  }

 private:
  using Named = std::pair<common::Digest, std::string>;
  void write_filler(int64_t first, int64_t end);
  void write(uint32_t shard, const std::vector<Named>& plans);

  cache::RemoteStore& store_;
  cache::RemoteEngine engine_;
  cache::EngineLeases leases_;
  const size_t bytes_;
  std::vector<common::Fence> fences_;
  std::vector<uint64_t> sequences_;
};

}  // namespace bench
