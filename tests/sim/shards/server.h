// A simulated server that holds leases and shards' records, by the rules of the real engines, and
// can be set back to what it was at an earlier time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cache/engine/shard_engine.h"
#include "common/base/cat.h"
#include "common/shard/lease_store.h"
#include "common/shard/shard.h"

namespace sim {

// Values only ever grow: a lower one over a higher is an old write that was taken.
using Records = std::map<uint32_t, uint64_t>;  // name -> value

struct ShardsServer {
  struct Shard {
    cache::FenceState state;
    Records records;
  };
  struct Data {
    std::array<Shard, common::kShardCount> shards;
    std::map<std::string, common::ShardLease> leases;
    std::set<uint32_t> revoked;  // names; only ever grows
  };

  cache::FenceAnswer raise(const common::Fence& fence) {
    Shard& shard = shard_of(fence);
    cache::FenceVerdict verdict = cache::judge_raise(shard.state, fence);
    if (verdict == cache::FenceVerdict::kTaken) shard.state.fence = fence;
    return {verdict, shard.state.fence, shard.state.sequence};
  }
  cache::FenceAnswer write(const common::Fence& fence, uint64_t sequence, uint32_t name,
                           uint64_t value) {
    Shard& shard = shard_of(fence);
    cache::FenceVerdict verdict = cache::judge_write(shard.state, fence, sequence);
    if (is_flawed) verdict = cache::FenceVerdict::kTaken;
    if (verdict == cache::FenceVerdict::kTaken && (is_flawed || shard.state.sequence != sequence)) {
      uint64_t& there = shard.records[name];
      if (value < there) breach = common::cat("shard ", fence.shard, " takes an old write");
      there = value;
      shard.state.sequence = sequence;
      ++writes_taken;
    }
    if (verdict == cache::FenceVerdict::kStale) ++stale;
    if (verdict == cache::FenceVerdict::kBehind) ++behind;
    return {verdict, shard.state.fence, shard.state.sequence};
  }
  std::vector<common::ShardLease> read_leases() const {
    std::vector<common::ShardLease> leases;
    for (const auto& [name, lease] : data.leases) leases.push_back(lease);
    return leases;
  }
  std::vector<std::string> write_leases(const std::vector<common::ShardLease>& leases) {
    std::vector<std::string> versions;
    for (common::ShardLease lease : leases) {
      auto there = data.leases.find(lease.name);
      std::string version = there == data.leases.end() ? "" : there->second.version;
      versions.emplace_back();
      if (version != lease.version) continue;
      versions.back() = common::cat("v", ++versions_made);
      lease.version = versions.back();
      bool is_removed = lease.holder.empty() && lease.transitions == 0;
      is_removed ? (void)data.leases.erase(lease.name) : (void)(data.leases[lease.name] = lease);
    }
    return versions;
  }
  Shard& shard_of(const common::Fence& fence) {
    Shard& shard = data.shards[fence.shard];
    shard.state.fence.shard = fence.shard;
    return shard;
  }

  Data data;
  bool is_flawed = false;  // takes every write
  std::string breach;      // of the rule that values grow
  uint64_t versions_made = 0, writes_taken = 0, stale = 0, behind = 0;
};

}  // namespace sim
