// What the shard table wants to have written.
#include <algorithm>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "coordinator/shards/shard_table.h"

namespace coordinator {

using common::ShardLease;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;

// The first word: the identity.
std::string identity_of(const std::string& holder) { return holder.substr(0, holder.find(' ')); }

}  // namespace

void ShardTable::add_member_lease(std::vector<ShardLease>& writes, int64_t now_ns) const {
  ShardLease lease = own_member_;
  lease.duration_ms = options_.duration_ms;
  lease.at = options_.at;
  // Who leaves is gone once it holds nothing, and is counted no more before.
  if (!is_leaving_) lease.holder = holder_;
  bool is_due = now_ns - member_renewed_ns_ >= options_.retry_ms * kNsPerMs;
  if (is_leaving_ ? !lease.version.empty() : is_due) writes.push_back(std::move(lease));
}

ShardLease ShardTable::lease_to_take(const Shard& shard) const {
  ShardLease lease = shard.lease;
  lease.holder = holder_;
  lease.transitions = std::max(lease.transitions, shard.floor) + 1;
  lease.duration_ms = options_.duration_ms;
  lease.at = options_.at;
  return lease;
}

// The best homes first, so that coordinators that look at once seldom want the same.
void ShardTable::add_takings(std::vector<ShardLease>& writes,
                             const std::vector<std::string>& living, uint32_t share,
                             int64_t now_ns) const {
  std::vector<std::pair<size_t, uint32_t>> free;
  for (uint32_t k = 0; k < shards_.size(); ++k) {
    if (shards_[k].holding || !is_free(shards_[k], now_ns)) continue;
    free.emplace_back(rank_of(options_.identity, k, living), k);
  }
  std::sort(free.begin(), free.end());
  uint32_t count = held();
  for (const auto& [rank, k] : free) {
    const Shard& shard = shards_[k];
    if (count < share) {
      writes.push_back(lease_to_take(shard));
      ++count;
    } else if (is_own(shard.lease.holder)) {
      // Taken by an earlier process or by a write whose answer was lost, and wanted no more.
      writes.push_back(shard.lease);
      writes.back().holder.clear();
    }
  }
}

bool ShardTable::somebody_lacks(const std::vector<std::string>& living) const {
  std::vector<uint32_t> held(living.size());
  for (const Shard& shard : shards_) {
    auto at = std::find(living.begin(), living.end(), identity_of(shard.lease.holder));
    if (at != living.end()) ++held[static_cast<size_t>(at - living.begin())];
  }
  for (size_t k = 0; k < living.size(); ++k) {
    bool is_own = living[k] == options_.identity;
    if (!is_own && held[k] < fair_share(common::kShardCount, living.size(), k)) return true;
  }
  return false;
}

// The worst homes first.
void ShardTable::begin_to_hand_over(const std::vector<std::string>& living, uint32_t share) {
  std::vector<std::pair<size_t, uint32_t>> served;
  uint32_t moving = 0;
  for (uint32_t k = 0; k < shards_.size(); ++k) {
    if (!shards_[k].holding) continue;
    bool is_moving = shards_[k].holding->phase >= Phase::kEnding;
    if (is_moving) {
      ++moving;
    } else {
      served.emplace_back(rank_of(options_.identity, k, living), k);
    }
  }
  std::sort(served.rbegin(), served.rend());
  uint32_t moves_max = is_leaving_ ? common::kShardCount : options_.moves_max;
  for (size_t k = 0; k + share < served.size() && moving < moves_max; ++k, ++moving) {
    Holding& holding = *shards_[served[k].second].holding;
    // What was never served has nothing to end.
    holding.phase = holding.phase == Phase::kServed ? Phase::kEnding : Phase::kEnded;
  }
}

std::vector<ShardLease> ShardTable::writes(int64_t now_ns) {
  expire(now_ns);
  std::vector<std::string> living = members_.living(now_ns);
  auto place = std::find(living.begin(), living.end(), options_.identity) - living.begin();
  uint32_t share =
      is_leaving_ ? 0 : fair_share(common::kShardCount, living.size(), static_cast<size_t>(place));
  if (held() > share && (is_leaving_ || somebody_lacks(living))) begin_to_hand_over(living, share);
  std::vector<ShardLease> writes;
  add_member_lease(writes, now_ns);
  for (const Shard& shard : shards_) {
    if (!shard.holding) continue;
    ShardLease lease = shard.lease;
    bool is_due = now_ns - shard.holding->renewed_ns >= options_.retry_ms * kNsPerMs;
    if (shard.holding->phase == Phase::kEnded) {
      lease.holder.clear();
    } else if (is_due) {
      lease.holder = holder_;
      lease.transitions = shard.holding->fence.transitions;
      lease.duration_ms = options_.duration_ms;
      lease.at = options_.at;
    } else {
      continue;
    }
    writes.push_back(std::move(lease));
  }
  add_takings(writes, living, share, now_ns);
  if (!is_leaving_) {
    std::vector<ShardLease> forgotten = members_.forgotten(now_ns);
    writes.insert(writes.end(), forgotten.begin(), forgotten.end());
  }
  return writes;
}

void ShardTable::wrote(std::span<const ShardLease> leases, std::span<const std::string> versions,
                       int64_t begun_ns) {
  LFARM_CHECK(leases.size() == versions.size(), "a version for each lease");
  for (size_t i = 0; i < leases.size(); ++i) {
    const ShardLease& lease = leases[i];
    if (versions[i].empty()) continue;
    if (lease.name == own_member_.name) {
      own_member_.version = lease.holder.empty() ? "" : versions[i];
      member_renewed_ns_ = begun_ns;
      continue;
    }
    auto at = std::find_if(shards_.begin(), shards_.end(),
                           [&](const Shard& shard) { return shard.lease.name == lease.name; });
    if (at == shards_.end()) continue;
    Shard& shard = *at;
    auto number = static_cast<uint32_t>(at - shards_.begin());
    shard.lease = lease;
    shard.lease.version = versions[i];
    shard.changed_ns = begun_ns;
    if (lease.holder.empty()) {
      shard.holding.reset();
    } else if (shard.holding && shard.holding->fence.transitions == lease.transitions) {
      shard.holding->renewed_ns = begun_ns;
    } else if (lease.transitions > shard.floor) {
      common::Fence fence{number, lease.transitions, options_.incarnation};
      shard.holding = Holding{fence, begun_ns, Phase::kTaken};
      // No fence twice, even where the lease is set back to what it was.
      shard.floor = fence.transitions;
    }
  }
}

}  // namespace coordinator
