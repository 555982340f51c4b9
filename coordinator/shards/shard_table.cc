#include "coordinator/shards/shard_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/cat.h"
#include "common/base/check.h"

namespace coordinator {

using common::cat;
using common::Fence;
using common::ShardLease;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr std::string_view kShardPrefix = "shard-";
constexpr int64_t kRenewalsInALease = 8;
// Renewals that may fall between two looks.
constexpr int64_t kRenewalsInALook = 2;

std::optional<uint32_t> shard_number(std::string_view name) {
  if (!name.starts_with(kShardPrefix)) return std::nullopt;
  std::string_view digits = name.substr(kShardPrefix.size());
  uint32_t number = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  bool ok = error == std::errc() && end == digits.data() + digits.size();
  return ok && number < common::kShardCount ? std::optional(number) : std::nullopt;
}

}  // namespace

void ShardTableOptions::last(int64_t ms) {
  duration_ms = ms;
  renew_ms = ms * 5 / 6;
  retry_ms = std::max<int64_t>(1, ms / kRenewalsInALease);
}

ShardTable::ShardTable(ShardTableOptions options)
    : options_(std::move(options)),
      holder_(cat(options_.identity, ' ', options_.incarnation.hex())),
      members_(options_.identity),
      member_renewed_ns_(-options_.duration_ms * kNsPerMs),
      shards_(common::kShardCount) {
  LFARM_CHECK(options_.renew_ms < options_.duration_ms, "a holder must give up before it is out");
  own_member_.name = cat(kMemberPrefix, options_.identity);
  for (uint32_t k = 0; k < common::kShardCount; ++k) shards_[k].lease.name = cat(kShardPrefix, k);
}

bool ShardTable::is_valid(const Holding& holding, int64_t now_ns) const {
  return now_ns - holding.renewed_ns < options_.renew_ms * kNsPerMs;
}

bool ShardTable::waits_for_raise(const Shard& shard, int64_t now_ns) const {
  return shard.holding && shard.holding->phase == Phase::kTaken && is_valid(*shard.holding, now_ns);
}

// What lies there in this process's name, and is not held, came of a write whose answer was lost.
bool ShardTable::is_own(const std::string& holder) const {
  return holder == holder_ || (predecessors_ && predecessors_->contains(holder));
}

// Nobody's, this coordinator's to take, or its holder has not kept its promise.
bool ShardTable::is_free(const Shard& shard, int64_t now_ns) const {
  const ShardLease& lease = shard.lease;
  if (lease.holder.empty() || is_own(lease.holder)) return true;
  return now_ns - shard.changed_ns >= lease.duration_ms * kNsPerMs;
}

void ShardTable::expire(int64_t now_ns) {
  for (Shard& shard : shards_) {
    if (shard.holding && !is_valid(*shard.holding, now_ns)) shard.holding.reset();
  }
}

// Of the time since the last look, what is too long to tell who renewed in it.
int64_t ShardTable::unseen_ns(int64_t now_ns) const {
  if (!looked_ns_) return 0;
  int64_t known_ns = kRenewalsInALook * options_.retry_ms * kNsPerMs;
  return std::max<int64_t>(0, now_ns - *looked_ns_ - known_ns);
}

void ShardTable::saw(const std::vector<ShardLease>& leases, int64_t now_ns) {
  const int64_t unseen = unseen_ns(now_ns);
  looked_ns_ = now_ns;
  members_.excuse(unseen);
  if (!predecessors_) {
    predecessors_.emplace();
    for (const ShardLease& lease : leases) {
      if (lease.holder.starts_with(cat(options_.identity, ' ')))
        predecessors_->insert(lease.holder);
    }
  }
  std::vector<ShardLease> now(shards_.size()), members;
  own_member_.version.clear();
  for (const ShardLease& lease : leases) {
    if (auto number = shard_number(lease.name)) now[*number] = lease;
    if (lease.name == own_member_.name) own_member_.version = lease.version;
    if (lease.name.starts_with(kMemberPrefix)) members.push_back(lease);
  }
  members_.saw(members, now_ns);
  for (size_t k = 0; k < shards_.size(); ++k) {
    Shard& shard = shards_[k];
    now[k].name = shard.lease.name;
    shard.changed_ns += unseen;
    if (now[k].version != shard.lease.version) shard.changed_ns = now_ns;
    shard.lease = now[k];
    // Also where the lease is gone: others may take the shard from now on, under the next fence.
    bool is_ours = shard.holding && shard.lease.holder == holder_ &&
                   shard.lease.transitions == shard.holding->fence.transitions;
    if (!is_ours) shard.holding.reset();
  }
  expire(now_ns);
}

std::vector<Fence> ShardTable::take_raises(int64_t now_ns) {
  std::vector<Fence> fences;
  for (Shard& shard : shards_) {
    if (!waits_for_raise(shard, now_ns)) continue;
    shard.holding->phase = Phase::kRaising;
    fences.push_back(shard.holding->fence);
  }
  return fences;
}

bool ShardTable::has_raises(int64_t now_ns) const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [&](const Shard& shard) { return waits_for_raise(shard, now_ns); });
}

void ShardTable::raised(const Fence& fence) {
  auto& holding = shards_.at(fence.shard).holding;
  if (holding && holding->fence == fence && holding->phase == Phase::kRaising) {
    holding->phase = Phase::kServed;
  }
}

void ShardTable::refused(const Fence& fence, const Fence& there) {
  Shard& shard = shards_.at(fence.shard);
  shard.floor = std::max({shard.floor, fence.transitions, there.transitions});
  if (shard.holding && shard.holding->fence == fence) shard.holding.reset();
}

std::vector<uint32_t> ShardTable::to_end() const {
  std::vector<uint32_t> ending;
  for (uint32_t k = 0; k < shards_.size(); ++k) {
    if (shards_[k].holding && shards_[k].holding->phase == Phase::kEnding) ending.push_back(k);
  }
  return ending;
}

void ShardTable::ended(uint32_t shard) {
  auto& holding = shards_.at(shard).holding;
  if (holding && holding->phase == Phase::kEnding) holding->phase = Phase::kEnded;
}

std::optional<Fence> ShardTable::serves(uint32_t shard, int64_t now_ns) const {
  const auto& holding = shards_.at(shard).holding;
  if (!holding || holding->phase != Phase::kServed || !is_valid(*holding, now_ns)) {
    return std::nullopt;
  }
  return holding->fence;
}

std::optional<Fence> ShardTable::writes_under(uint32_t shard, int64_t now_ns) const {
  const auto& holding = shards_.at(shard).holding;
  bool may_write = holding && holding->phase != Phase::kTaken && holding->phase != Phase::kEnded &&
                   is_valid(*holding, now_ns);
  return may_write ? std::optional(holding->fence) : std::nullopt;
}

std::optional<common::ServedAt> ShardTable::served_by_other(uint32_t shard) const {
  const ShardLease& lease = shards_.at(shard).lease;
  if (lease.holder.empty() || is_own(lease.holder)) return std::nullopt;
  return lease.at;
}

std::vector<ServingCoordinator> ShardTable::coordinators(int64_t now_ns) const {
  std::vector<ServingCoordinator> all{{options_.at, {}}};
  auto entry = [&](const common::ServedAt& at) -> ServingCoordinator& {
    auto known =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.at == at; });
    return known != all.end() ? *known : all.emplace_back(ServingCoordinator{at, {}});
  };
  for (const common::ServedAt& at : members_.others(now_ns)) entry(at);
  for (uint32_t k = 0; k < shards_.size(); ++k) {
    if (shards_[k].holding) {
      all.front().shards.push_back(k);
    } else if (auto other = served_by_other(k)) {
      entry(*other).shards.push_back(k);
    }
  }
  std::erase_if(all, [](const auto& one) { return one.at.endpoint.empty(); });
  return all;
}

uint32_t ShardTable::held() const {
  return static_cast<uint32_t>(std::count_if(shards_.begin(), shards_.end(),
                                             [](const Shard& s) { return s.holding.has_value(); }));
}

}  // namespace coordinator
