// The coordinators of a farm that live, and how many shards each is to hold.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/shard/lease_store.h"

namespace coordinator {

// "member-a": the lease by which coordinator `a` says that it lives.
inline constexpr std::string_view kMemberPrefix = "member-";

// A pure state machine. A member lives as long as its lease was seen to change within the time that
// it promised, by the clock of whoever looks.
class Members {
 public:
  explicit Members(std::string own) : own_(std::move(own)) {}

  // All leases of members that there are, and no others.
  void saw(const std::vector<common::ShardLease>& leases, int64_t now_ns);
  // So much time is not held against anybody's lease.
  void excuse(int64_t ns);
  // Identities in order, the own one among them.
  std::vector<std::string> living(int64_t now_ns) const;
  // Where the other ones that live are found.
  std::vector<common::ServedAt> others(int64_t now_ns) const;
  // Leases of members that are long dead, to be removed.
  std::vector<common::ShardLease> forgotten(int64_t now_ns) const;

 private:
  struct Member {
    common::ShardLease lease;
    int64_t changed_ns = 0;
    bool lives(int64_t now_ns) const;
  };
  const std::string own_;
  std::map<std::string, Member> members_;
};

// How many of `shards` shards the member at this place among `members` is to hold.
uint32_t fair_share(uint32_t shards, size_t members, size_t place);

// How good a home the member is for the shard, from 0, the best: its place when all members are put
// in the shard's own order. Source: D. Thaler, C. Ravishankar, "Using name-based mappings to
// increase hit rates", IEEE/ACM Transactions on Networking 6(1), 1998 (rendezvous hashing).
size_t rank_of(const std::string& member, uint32_t shard, const std::vector<std::string>& members);

}  // namespace coordinator
