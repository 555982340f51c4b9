// Shard table. Decides which shards this coordinator holds: takes free ones up to its fair share,
// renews them, hands over what is beyond it, and knows who holds the others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/incarnation.h"
#include "common/shard/fence.h"
#include "common/shard/lease_store.h"
#include "common/shard/shard.h"
#include "coordinator/shards/members.h"

namespace coordinator {

struct ShardTableOptions {
  std::string identity;             // of this coordinator, unlike any other's; no spaces
  common::Incarnation incarnation;  // of this process
  common::ServedAt at;              // where others find it
  int64_t duration_ms = 15'000;     // others wait so long before they take over
  int64_t renew_ms = 10'000;        // a shard not renewed for so long is not held; < duration
  int64_t retry_ms = 2'000;         // between renewals
  int64_t write_ms = 15'000;        // a shard of which the engine takes no write is given up after
  uint32_t moves_max = 8;           // shards that are being handed over at a time

  // The times of leases that last for `ms`: eight renewals each, and a sixth of it between the end
  // of what a holder serves and the beginning of what others take.
  void last(int64_t ms);
};

// A coordinator of the farm, as leases tell of it.
struct ServingCoordinator {
  common::ServedAt at;
  std::vector<uint32_t> shards;  // that it holds, in order
};

// A pure state machine; the clock comes with each call, in nanoseconds that never go back. Whoever
// drives it does in turn:
//
//   saw(leases.read())             what there is
//   wrote(w, leases.write(w))      for w = writes(): what it wants
//   raise() each to_raise()        in the engine: raised(), or refused() with the fence there
//   end each to_end()              what is under way for the shard, then ended()
//
// and raises what it serves from time to time, too: the answer says whether the engine still has
// all of its changes.
//
// What lies there in this identity's name when it looks first is of an earlier process, and is
// taken at once; what that process still writes, the engine refuses.
//
// Others' leases lapse by looks, not by time alone: each look counts for two renewals at most. A
// server that was away, or a coordinator that stood still, takes no time from those that could not
// be seen to renew meanwhile.
//
// A shard is served from raised() on until it is lost, given up or not renewed in time. A
// coordinator whose shard another one has taken may not know yet: its writes are refused by the
// engine.
class ShardTable {
 public:
  explicit ShardTable(ShardTableOptions options);
  // Where others find this coordinator, when it is known later than the rest.
  void be_found(common::ServedAt at) { options_.at = std::move(at); }

  void saw(const std::vector<common::ShardLease>& leases, int64_t now_ns);
  // Leases to write, the own membership among them. To be called after saw().
  std::vector<common::ShardLease> writes(int64_t now_ns);
  // `versions` as LeaseStore::write() returns them; `begun_ns`: before the call.
  void wrote(std::span<const common::ShardLease> leases, std::span<const std::string> versions,
             int64_t begun_ns);

  // Each is returned once, and is raised once: a raise without an answer is refused() with the
  // fence itself, since it may still land.
  std::vector<common::Fence> take_raises(int64_t now_ns);
  bool has_raises(int64_t now_ns) const;
  void raised(const common::Fence& fence);
  // The engine refused the fence, since it has this one or has lost writes: the shard is taken
  // anew, with more transitions than either, if it is still ours.
  void refused(const common::Fence& fence, const common::Fence& there);
  // Shards that are to be handed over, of which nothing new may begin.
  std::vector<uint32_t> to_end() const;
  void ended(uint32_t shard);
  // Hands over everything and takes nothing more; over when held() is 0.
  void leave() { is_leaving_ = true; }

  // The fence under which the shard is served now; empty: it is not.
  std::optional<common::Fence> serves(uint32_t shard, int64_t now_ns) const;
  // The same of a shard that is being prepared or handed over, too: what is under way may be
  // written.
  std::optional<common::Fence> writes_under(uint32_t shard, int64_t now_ns) const;
  // Who holds it, as far as is known; empty: nobody, or this coordinator.
  std::optional<common::ServedAt> served_by_other(uint32_t shard) const;
  // All coordinators that live or hold a shard, this one first.
  std::vector<ServingCoordinator> coordinators(int64_t now_ns) const;
  // Shards of which the lease is this coordinator's.
  uint32_t held() const;
  size_t members(int64_t now_ns) const { return members_.living(now_ns).size(); }
  const ShardTableOptions& options() const { return options_; }

 private:
  enum class Phase : uint8_t { kTaken, kRaising, kServed, kEnding, kEnded };
  struct Holding {
    common::Fence fence;
    int64_t renewed_ns = 0;  // when the last renewal that succeeded was begun
    Phase phase = Phase::kTaken;
  };
  struct Shard {
    common::ShardLease lease;  // as last read or written
    int64_t changed_ns = 0;    // when it was last seen to change
    uint64_t floor = 0;        // transitions that the engine has seen
    std::optional<Holding> holding;
  };
  int64_t unseen_ns(int64_t now_ns) const;
  bool is_valid(const Holding& holding, int64_t now_ns) const;
  bool waits_for_raise(const Shard& shard, int64_t now_ns) const;
  bool is_free(const Shard& shard, int64_t now_ns) const;
  bool is_own(const std::string& holder) const;
  void expire(int64_t now_ns);
  void begin_to_hand_over(const std::vector<std::string>& living, uint32_t share);
  bool somebody_lacks(const std::vector<std::string>& living) const;
  common::ShardLease lease_to_take(const Shard& shard) const;
  void add_member_lease(std::vector<common::ShardLease>& writes, int64_t now_ns) const;
  void add_takings(std::vector<common::ShardLease>& writes, const std::vector<std::string>& living,
                   uint32_t share, int64_t now_ns) const;

  ShardTableOptions options_;
  const std::string holder_;  // as it stands in leases
  Members members_;
  common::ShardLease own_member_;
  int64_t member_renewed_ns_;
  std::optional<int64_t> looked_ns_;  // when leases were last seen
  std::vector<Shard> shards_;
  bool is_leaving_ = false;
  // Earlier processes of this identity, as leases named them at the first look; empty: before it.
  std::optional<std::set<std::string>> predecessors_;
};

}  // namespace coordinator
