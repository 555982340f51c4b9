// The engine of a farm without another store: a shard's records lie in the coordinator's own.
#pragma once

#include <mutex>

#include "cache/engine/shard_engine.h"
#include "cache/store/store.h"

namespace cache {

// Borrows the store. A change is on the disk when it is taken.
class EmbeddedEngine final : public ShardEngine {
 public:
  explicit EmbeddedEngine(Store& store) : store_(store) {}

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
  std::mutex mutex_;
  Store& store_;
};

}  // namespace cache
