#include "coordinator/shards/members.h"

#include <algorithm>

#include "common/base/digest.h"

namespace coordinator {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// In terms of what a member promised.
constexpr int64_t kTermsUntilForgotten = 20;

uint64_t weight(const std::string& member, uint32_t shard) {
  return common::Hasher().text(member).u64(shard).finish().prefix64();
}

}  // namespace

bool Members::Member::lives(int64_t now_ns) const {
  return now_ns - changed_ns < lease.duration_ms * kNsPerMs;
}

void Members::saw(const std::vector<common::ShardLease>& leases, int64_t now_ns) {
  std::map<std::string, Member> now;
  for (const common::ShardLease& lease : leases) {
    std::string identity = lease.name.substr(kMemberPrefix.size());
    auto known = members_.find(identity);
    bool is_news = known == members_.end() || known->second.lease.version != lease.version;
    now[identity] = {lease, is_news ? now_ns : known->second.changed_ns};
  }
  members_ = std::move(now);
}

void Members::excuse(int64_t ns) {
  for (auto& [identity, member] : members_) member.changed_ns += ns;
}

std::vector<std::string> Members::living(int64_t now_ns) const {
  std::vector<std::string> living{own_};
  for (const auto& [identity, member] : members_) {
    if (member.lives(now_ns) && identity != own_) living.push_back(identity);
  }
  std::sort(living.begin(), living.end());
  return living;
}

std::vector<common::ServedAt> Members::others(int64_t now_ns) const {
  std::vector<common::ServedAt> others;
  for (const auto& [identity, member] : members_) {
    if (member.lives(now_ns) && identity != own_) others.push_back(member.lease.at);
  }
  return others;
}

std::vector<common::ShardLease> Members::forgotten(int64_t now_ns) const {
  std::vector<common::ShardLease> forgotten;
  for (const auto& [identity, member] : members_) {
    int64_t patience_ns = kTermsUntilForgotten * member.lease.duration_ms * kNsPerMs;
    if (identity == own_ || now_ns - member.changed_ns < patience_ns) continue;
    forgotten.push_back(member.lease);
    forgotten.back().holder.clear();
  }
  return forgotten;
}

uint32_t fair_share(uint32_t shards, size_t members, size_t place) {
  return static_cast<uint32_t>(shards / members + (place < shards % members ? 1 : 0));
}

size_t rank_of(const std::string& member, uint32_t shard, const std::vector<std::string>& members) {
  uint64_t own = weight(member, shard);
  return static_cast<size_t>(
      std::count_if(members.begin(), members.end(), [&](const std::string& other) {
        uint64_t theirs = weight(other, shard);
        return theirs > own || (theirs == own && other < member);
      }));
}

}  // namespace coordinator
