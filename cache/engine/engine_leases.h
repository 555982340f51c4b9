// Leases on a server that speaks the Redis protocol: a hash, of which a script replaces a field
// only where it still has the version that the writer has read.
#pragma once

#include <string>

#include "cache/remote/remote_store.h"
#include "common/shard/lease_store.h"

namespace cache {

// Borrows the store. `space` is a farm's own part of the server. A lease of nobody without
// transitions is removed. The server's own time to live is not used: who reads a lease decides by
// its own clock whether it has lapsed. Each write draws a version that no other has, so that a
// server that was restored from an older copy takes nothing for what it was not.
class EngineLeases final : public common::LeaseStore {
 public:
  EngineLeases(RemoteStore& store, const std::string& space);

  common::Result<std::vector<common::ShardLease>> read() override;
  common::Result<std::vector<std::string>> write(
      std::span<const common::ShardLease> leases) override;

 private:
  RemoteStore& store_;
  const std::string key_;
  RemoteScript read_, write_;
};

}  // namespace cache
