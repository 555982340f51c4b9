// The engine on a server that speaks the Redis protocol: each change is one Lua script, which the
// server runs alone, so that no other comes between the comparison and the write.
#pragma once

#include <string>

#include "cache/engine/shard_engine.h"
#include "cache/remote/remote_store.h"

namespace cache {

struct RemoteEngineOptions {
  std::string space;     // a farm's own part of the server; no braces
  int64_t replicas = 0;  // of the server that must have a change before it counts as taken
};

// Borrows the store. A change that too few replicas have is kUnavailable, and is to be repeated.
// How long the server itself keeps what it has taken is its configuration's matter.
//
// A shard's keys have one hash tag, so that they are in one slot of a cluster:
//   lfarm:2:{SPACE.17}:fence    TRANSITIONS INCARNATION SEQUENCE
//   lfarm:2:{SPACE.17}:plan     a hash: each plan's bytes under its name
//   lfarm:2:{SPACE.17}:job      the same of jobs
class RemoteEngine final : public ShardEngine {
 public:
  RemoteEngine(RemoteStore& store, RemoteEngineOptions options);

  common::Result<FenceAnswer> raise(const common::Fence& fence) override;
  common::Result<FenceAnswer> write(const common::Fence& fence, uint64_t sequence,
                                    std::span<const ShardChange> changes) override;
  common::Result<FenceState> look(uint32_t shard) override;
  common::Result<std::optional<std::string>> read(uint32_t shard, ShardRecord record,
                                                  const common::Digest& name) override;
  common::Result<std::vector<std::optional<std::string>>> read_all(
      uint32_t shard, ShardRecord record, std::span<const common::Digest> names) override;
  common::Result<uint64_t> count(uint32_t shard, ShardRecord record) override;
  common::Result<NamePage> names(uint32_t shard, ShardRecord record,
                                 const std::string& from) override;

 private:
  std::string key(uint32_t shard, const char* what) const;
  std::string key(uint32_t shard, ShardRecord record) const;
  common::Result<FenceAnswer> change(RemoteScript& script, const common::Fence& fence,
                                     std::span<const std::string> keys,
                                     std::span<const std::string_view> arguments);

  RemoteStore& store_;
  const RemoteEngineOptions options_;
  RemoteScript raise_, write_, look_, count_, names_;
};

}  // namespace cache
