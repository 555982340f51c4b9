#include "coordinator/service/migration/farm_hold.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/shard/shard.h"

namespace coordinator::service {

using common::cat;
using common::Result;
using common::ShardLease;
using common::Status;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr std::chrono::milliseconds kPause{20};
// Terms of leases until all shards are taken: those of coordinators that died lapse within one.
constexpr int64_t kTermsMax = 4;
// For shards to be given back; what is kept lapses.
constexpr int64_t kLeaveMs = 3'000;

common::Error stopped() { return common::unavailable("the migration was told to stop"); }

std::string name_of(const ShardLease& lease) {
  std::string who = lease.holder.substr(0, lease.holder.find(' '));
  return lease.at.endpoint.empty() ? who : cat(who, " at ", lease.at.endpoint);
}

int64_t longest_ms(const std::vector<ShardLease>& leases) {
  int64_t longest = 0;
  for (const ShardLease& lease : leases) {
    if (!lease.holder.empty()) longest = std::max(longest, lease.duration_ms);
  }
  return longest;
}

// Watches the leases for as long as the longest of them lasts.
Status check_that_nobody_renews(common::LeaseStore& leases, const common::Clock& clock,
                                const std::function<bool()>& is_stopped) {
  LFARM_ASSIGN_OR_RETURN(std::vector<ShardLease> first, leases.read());
  std::map<std::string, std::string> versions;
  for (const ShardLease& lease : first) versions[lease.name] = lease.version;
  const int64_t end_ns = clock.now_ns() + longest_ms(first) * kNsPerMs;
  while (clock.now_ns() < end_ns) {
    if (is_stopped()) return stopped();
    std::this_thread::sleep_for(kPause);
    LFARM_ASSIGN_OR_RETURN(std::vector<ShardLease> now, leases.read());
    for (const ShardLease& lease : now) {
      if (lease.holder.empty() || versions[lease.name] == lease.version) continue;
      return common::unavailable(cat("the coordinator ", name_of(lease),
                                     " serves this farm; stop all of its coordinators"));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<FarmHold>> FarmHold::take(Sharding& sharding, const ShardingOptions& options,
                                                 const common::Clock& clock,
                                                 const std::function<bool()>& is_stopped) {
  LFARM_ASSIGN_OR_RETURN(std::vector<ShardLease> there, sharding.leases.read());
  const int64_t term_ms = std::max(options.duration_ms, longest_ms(there));
  LFARM_RETURN_IF_ERROR(check_that_nobody_renews(sharding.leases, clock, is_stopped));
  std::unique_ptr<FarmHold> hold(new FarmHold(sharding, clock));
  sharding.keeper.start({});
  LFARM_RETURN_IF_ERROR(hold->wait_for_all(kTermsMax * term_ms, is_stopped));
  return hold;
}

// Each shard counts as served, so that one that another coordinator asks for is kept until the
// hold ends.
Status FarmHold::wait_for_all(int64_t patience_ms, const std::function<bool()>& is_stopped) {
  ShardKeeper& keeper = sharding_.keeper;
  const int64_t end_ns = clock_.now_ns() + patience_ms * kNsPerMs;
  while (true) {
    for (const common::Fence& fence : keeper.take_raised()) keeper.ready(fence);
    ShardCounts counts = keeper.counts();
    if (counts.served == common::kShardCount) return {};
    if (is_stopped()) return stopped();
    if (clock_.now_ns() >= end_ns) {
      return common::unavailable(
          cat("only ", counts.served, " of ", common::kShardCount, " shards could be taken: ",
              counts.trouble.empty() ? "another coordinator has the others" : counts.trouble));
    }
    std::this_thread::sleep_for(kPause);
  }
}

FarmHold::~FarmHold() {
  ShardKeeper& keeper = sharding_.keeper;
  const int64_t end_ns = clock_.now_ns() + kLeaveMs * kNsPerMs;
  while (!keeper.leave() && clock_.now_ns() < end_ns) {
    for (uint32_t shard : keeper.to_end()) keeper.ended(shard);
    std::this_thread::sleep_for(kPause);
  }
  keeper.stop();
}

Status FarmHold::check() const {
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    if (sharding_.keeper.holds(shard)) continue;
    return common::unavailable(cat("shard ", shard, " was lost; run the migration again"));
  }
  return {};
}

}  // namespace coordinator::service
