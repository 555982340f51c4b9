// Shard keeper. Drives a ShardTable against the leases and the engine, and writes the shards'
// changes. A thread renews leases and does nothing else, so that no engine that is slow costs the
// coordinator its shards; a second one raises fences and looks after what the engine has.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cache/engine/shard_engine.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/shard/lease_store.h"
#include "coordinator/shards/shard_table.h"

namespace coordinator::service {

struct ShardCounts {
  uint32_t held = 0;        // shards whose lease is this coordinator's
  uint32_t served = 0;      // of those, now
  size_t members = 0;       // coordinators that live, this one among them
  uint64_t writes = 0;      // that were taken
  uint64_t stale = 0;       // writes refused, because another coordinator has the shard
  uint64_t behind = 0;      // times that the engine had lost changes
  uint64_t step_downs = 0;  // shards given up because the engine took no write of them
  uint64_t redirects = 0;   // clients sent to another coordinator, or told to ask again
  std::string trouble;      // why leases cannot be read or written; empty: they can
};

// Thread-safe. Borrows what it is given. serves() and served_by_other() do not wait; write() may.
class ShardKeeper {
 public:
  ShardKeeper(ShardTableOptions options, common::LeaseStore& leases, cache::ShardEngine& engine,
              const common::Clock& clock);
  // Shards that are held lapse, unless left before.
  ~ShardKeeper();
  ShardKeeper(const ShardKeeper&) = delete;
  ShardKeeper& operator=(const ShardKeeper&) = delete;

  // Begins to take shards, and says where others find this coordinator. To be called once.
  void start(common::ServedAt at);

  std::optional<common::Fence> serves(uint32_t shard) const;
  // The fence of a shard that is this coordinator's: served, being prepared, or being handed over.
  std::optional<common::Fence> holds(uint32_t shard) const;
  // All shards that are served now, by number.
  std::bitset<common::kShardCount> served() const;
  // Empty: nobody, or this coordinator.
  std::optional<common::ServedAt> served_by_other(uint32_t shard) const;
  // All coordinators that are known of, this one first.
  std::vector<ServingCoordinator> coordinators() const;
  // Writes all changes or none, under the shard's fence, and repeats that while the engine does not
  // take them and the shard is held. After `write_ms` of the options the shard is given up. Writes
  // of one shard wait for one another, those of several do not. kUnavailable when the shard is not
  // held, or not any more.
  common::Status write(uint32_t shard, std::span<const cache::ShardChange> changes);
  // The same, only under this fence.
  common::Status write_under(const common::Fence& fence,
                             std::span<const cache::ShardChange> changes);

  // Shards that were raised, each once: whoever serves them prepares, then says ready().
  std::vector<common::Fence> take_raised();
  void ready(const common::Fence& fence);
  // Shards that are to be handed over: nothing new begins there. ended() says that nothing is under
  // way either.
  std::vector<uint32_t> to_end() const;
  void ended(uint32_t shard);
  // Hands everything over and takes nothing more. True once nothing is held.
  bool leave();
  // Ends the threads, and writes that are repeated.
  void stop();

  ShardCounts counts() const;
  void note_redirect();

 private:
  struct Writing {
    common::Fence fence;
    uint64_t sequence = 0;  // of the last change that was taken
  };
  void renew();
  void tend_engine();
  std::chrono::milliseconds pause() const;
  common::Status tend_leases();
  void raise(const common::Fence& fence);
  void look();
  std::optional<Writing> writing_of(uint32_t shard) const;
  void refuse(const common::Fence& fence, const cache::FenceAnswer& answer);
  common::Status write_until_taken(const Writing& mine,
                                   std::span<const cache::ShardChange> changes);
  void give_up(const common::Fence& fence);

  common::LeaseStore& leases_;
  cache::ShardEngine& engine_;
  const common::Clock& clock_;
  // One write of a shard at a time, since each has the next sequence number; taken before mutex_.
  std::array<std::mutex, common::kShardCount> one_write_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  ShardTable table_;
  std::map<uint32_t, Writing> writings_;  // of raised shards
  std::vector<common::Fence> raised_;
  std::bitset<common::kShardCount> now_writing_;
  ShardCounts counts_;
  bool stopping_ = false;
  std::thread renewing_, tending_;
};

}  // namespace coordinator::service
